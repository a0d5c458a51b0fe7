"""Nodes that save and load a story."""

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
from ..inputs.sockets import CATEGORY, TRAJECTORY, TrajectorySocket, check_connected
from ..inputs.validation import fault_of
from .export import display_of, image_size, write_export
from .saved_runs import find_choice, incomplete_line, load_choice, shown_incomplete, stamp, trajectory_names

FOLDER, ONE_FILE = "folder", "one file (ZIP)"


def story_roots() -> dict[str, Path]:
    """Return the folders that are searched for stories, by their name in the list."""
    return {"output": host.output_folder(), "input": host.input_folder()}


class SaveTrajectory(io.ComfyNode):
    """Saves a story as a run folder or one ZIP file."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return io.Schema(
            node_id="InterleaveSaveTrajectory",
            display_name="Save Story",
            category=CATEGORY,
            description="Saves the whole story with all attempts and images in a folder of its own in the "
            "output folder, or in one ZIP file to share. Load Story and the command line open both. Nothing "
            "is overwritten.",
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
                TrajectorySocket.Input(
                    "trajectory", tooltip="The story to save, from Critic Loop or Attempt End."
                ),
                io.String.Input(
                    "filename_prefix",
                    default="interleave-thinker/saved/story",
                    tooltip="Name of the folder or file, with subfolders before it; a number is added. "
                    "%date:yyyy-MM-dd%, %year%, %month%..., and %Node.widget% are replaced.",
                ),
                io.Combo.Input(
                    "form",
                    options=[FOLDER, ONE_FILE],
                    default=FOLDER,
                    optional=True,
                    tooltip="A folder, or one ZIP file to share. The ZIP contains everything: request, input "
                    "images, plan, all attempts and verdicts, and the workflow. Load Story opens both.",
                ),
            ],
            outputs=[
                TrajectorySocket.Output("TRAJECTORY", tooltip="The same story."),
                io.String.Output("path", tooltip="The folder or file that was written."),
            ],
        )

    @classmethod
    def validate_inputs(cls, filename_prefix: str | None = None) -> bool | str:
        """Check inputs before anything runs."""
        return host.prefix_fault(filename_prefix)

    @classmethod
    def execute(cls, trajectory: Trajectory, filename_prefix: str, form: str = FOLDER) -> io.NodeOutput:
        """Save the story."""
        check_connected("Save Story", TRAJECTORY, trajectory=trajectory)
        if form not in (FOLDER, ONE_FILE):
            raise SettingsError(f"Unknown form {form[:40]!r}.", f"Choose one of: {FOLDER}, {ONE_FILE}.")
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
    """Loads a story from a run folder, a ZIP file or an execution record."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return io.Schema(
            node_id="InterleaveLoadTrajectory",
            display_name="Load Story",
            category=CATEGORY,
            description="Loads a story from the output or input folder: a run of the Critic Loop (finished "
            "or not), a saved story, a shared .zip, a folder with an execution_record.json, or a folder "
            "with a story.txt and its images.",
            search_aliases=["load story", "open run", "execution record", "resume story", "zip", "import"],
            inputs=[
                io.Combo.Input(
                    "story",
                    options=trajectory_names(story_roots()),
                    tooltip="Stories in the output and input folders, newest first. Put a .zip from someone "
                    "else into the input folder. Press R to refresh the list.",
                )
            ],
            outputs=[
                TrajectorySocket.Output(
                    "TRAJECTORY", tooltip="The story, for Storyboard, Export or Feedback."
                ),
                io.String.Output(
                    "report", tooltip="The result of every step and attempt, with the critic's reasoning."
                ),
            ],
        )

    @classmethod
    def fingerprint_inputs(cls, story: str) -> str:
        """Return a value that changes when the node must run again."""
        try:
            return stamp(find_choice(story, story_roots()))
        except InterleaveError as error:
            return str(error)

    @classmethod
    def validate_inputs(cls, story: str) -> bool | str:
        """Check inputs before anything runs."""
        # With this parameter the host skips its own check of the list: a story may be newer than the page.
        return fault_of(lambda: find_choice(story, story_roots()))

    @classmethod
    def execute(cls, story: str) -> io.NodeOutput:
        """Load the story."""
        trajectory = load_choice(story, story_roots())
        host.NodeProgress().say(summarize(trajectory).sentence)
        return io.NodeOutput(trajectory, report(trajectory))
