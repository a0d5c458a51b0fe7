"""Nodes that keep a finished story in files and bring it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from comfy_api.latest import io

from ...backend.errors import InterleaveError, SettingsError
from ...backend.journal.copy import save_trajectory
from ...backend.report.outcomes import summarize
from ...backend.report.text import report
from ...backend.types import Trajectory
from .. import host
from ..inputs.connected import TRAJECTORY, check_connected
from ..inputs.sockets import CATEGORY, TrajectorySocket
from ..inputs.validation import fault_of
from .export import display_of, image_size, write_export
from .incomplete import incomplete_line, shown_incomplete
from .saved_runs import find_choice, load_choice, stamp, trajectory_names

FOLDER, ONE_FILE = "folder", "one file (ZIP)"


def story_roots() -> dict[str, Path]:
    """The folders in which stories may lie, by the name that the list shows."""
    return {"output": host.output_folder(), "input": host.input_folder()}


class SaveTrajectory(io.ComfyNode):
    """Writes a story as a run's folder of its own."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveSaveTrajectory",
            display_name="Save Trajectory",
            category=CATEGORY,
            description="Keeps a whole story, with every try and every image, in a folder of its own below "
            "the output folder, or in one file to share. Load Trajectory and the command line read both. "
            "Nothing is ever overwritten.",
            search_aliases=[
                "save story",
                "keep run",
                "archive",
                "store trajectory",
                "backup",
                "zip",
                "share",
            ],
            is_output_node=True,
            inputs=[
                TrajectorySocket.Input("trajectory", tooltip="The story to keep, from a Critic Loop."),
                io.String.Input(
                    "filename_prefix",
                    default="interleave-thinker/saved/story",
                    tooltip="Name of the folder, with sub-folders before it; a number is added. "
                    "%date:yyyy-MM-dd%, %year%, %month%..., and %Node.widget% are filled in.",
                ),
                io.Combo.Input(
                    "form",
                    options=[FOLDER, ONE_FILE],
                    default=FOLDER,
                    optional=True,
                    tooltip="A folder, or one file to share with all of it and the workflow; Load "
                    "Trajectory opens both.",
                ),
            ],
            outputs=[
                TrajectorySocket.Output("TRAJECTORY", tooltip="The same story."),
                io.String.Output("path", tooltip="The folder or file that was written."),
            ],
        )

    @classmethod
    def validate_inputs(cls, filename_prefix: str | None = None) -> bool | str:
        return host.prefix_fault(filename_prefix)

    @classmethod
    def execute(cls, trajectory: Trajectory, filename_prefix: str, form: str = FOLDER) -> io.NodeOutput:
        check_connected("Save Trajectory", TRAJECTORY, trajectory=trajectory)
        if form not in (FOLDER, ONE_FILE):
            raise SettingsError(f"There is no form {form!r}.", f"Known: {FOLDER}, {ONE_FILE}.")
        name = host.new_name(filename_prefix, cls.hidden, image_size(trajectory))
        if form == FOLDER:
            path = save_trajectory(trajectory, name.file())
            shown: dict[str, Any] = {"text": (str(path),)}
        else:
            path = write_export(trajectory, "zip", name, {"metadata": host.graph_metadata(cls.hidden)})
            shown = display_of(path, "zip")
        host.NodeProgress().say(f"saved: {path}\n{incomplete_line(trajectory)}".strip())
        return io.NodeOutput(trajectory, str(path), ui=shown | shown_incomplete(trajectory))


class LoadTrajectory(io.ComfyNode):
    """Brings a story back from a run's folder or an execution record."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveLoadTrajectory",
            display_name="Load Trajectory",
            category=CATEGORY,
            description="Reads a story back: a run of the Critic Loop, finished or not, a saved one, a story "
            "in one file (.zip), or a folder with an execution_record.json, from the output or the input "
            "folder.",
            search_aliases=["load story", "open run", "execution record", "resume story", "zip", "import"],
            inputs=[
                io.Combo.Input(
                    "story",
                    options=trajectory_names(story_roots()),
                    tooltip="The stories found in the output and the input folder, the newest first; "
                    "press R to look again.",
                )
            ],
            outputs=[
                TrajectorySocket.Output("TRAJECTORY", tooltip="For a Storyboard, an Export or Feedback."),
                io.String.Output("report", tooltip="How every step and every try went."),
            ],
        )

    @classmethod
    def fingerprint_inputs(cls, story: str) -> str:
        try:
            return stamp(find_choice(story, story_roots()))
        except InterleaveError as error:
            return str(error)

    @classmethod
    def validate_inputs(cls, story: str) -> bool | str:
        # Asked for here, the host leaves its own check of the list out: a story may be newer than the page.
        return fault_of(lambda: find_choice(story, story_roots()))

    @classmethod
    def execute(cls, story: str) -> io.NodeOutput:
        trajectory = load_choice(story, story_roots())
        host.NodeProgress().say(summarize(trajectory).sentence)
        return io.NodeOutput(trajectory, report(trajectory))
