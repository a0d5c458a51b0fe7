"""Nodes that save and load a story."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.core.errors import InterleaveError, SettingsError
from ...backend.core.types import Trajectory
from ...backend.output.report.run_report import report
from ...backend.story.journal.copy import save_trajectory
from ...backend.story.outcomes import summarize
from .. import host
from ..inputs.sockets import TRAJECTORY, TrajectorySocket, check_connected, node_schema
from ..inputs.validation import fault_of
from . import saved_runs
from .export import display_of, held_back, image_size, metadata_of, story_roots, write_export

FOLDER, ONE_FILE = "folder", "one file (ZIP)"


class SaveTrajectory(io.ComfyNode):
    """Saves a story as a run folder or one ZIP file."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveSaveTrajectory",
            is_output_node=True,
            hidden=[io.Hidden.unique_id],
            shown=("filename_prefix",),
            inputs=[
                TrajectorySocket.Input("trajectory"),
                io.String.Input("filename_prefix", default="interleave-thinker/saved/story"),
                io.Combo.Input("form", options=[FOLDER, ONE_FILE], default=FOLDER, optional=True),
            ],
            outputs=[TrajectorySocket.Output("TRAJECTORY"), io.String.Output("path")],
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
        if held := held_back(trajectory, 2):
            return held
        name = host.new_name(filename_prefix, image_size(trajectory))
        if form == FOLDER:
            path = save_trajectory(trajectory, name.file())
            shown: dict[str, Any] = {"text": (str(path),)}
        else:
            path = write_export(trajectory, "zip", name, {"metadata": metadata_of(cls.hidden, "zip")})
            shown = display_of(path, "zip")
        host.NodeProgress().say(f"saved: {path}\n{saved_runs.incomplete_line(trajectory)}".strip())
        return io.NodeOutput(trajectory, str(path), ui=shown | saved_runs.shown_incomplete(trajectory))


class LoadTrajectory(io.ComfyNode):
    """Loads a story from a run folder, a ZIP file or an execution record."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveLoadTrajectory",
            inputs=[io.Combo.Input("story", options=saved_runs.trajectory_names(story_roots()))],
            outputs=[TrajectorySocket.Output("TRAJECTORY"), io.String.Output("report")],
        )

    @classmethod
    def fingerprint_inputs(cls, story: str) -> str:
        """Return a value that changes when the node must run again."""
        try:
            return saved_runs.stamp(saved_runs.find_choice(story, story_roots()))
        except InterleaveError as error:
            return str(error)

    @classmethod
    def validate_inputs(cls, story: str) -> bool | str:
        """Check inputs before anything runs."""
        # With this parameter the host skips its own check of the list: a story may be newer than the page.
        return fault_of(lambda: saved_runs.find_choice(story, story_roots()))

    @classmethod
    def execute(cls, story: str) -> io.NodeOutput:
        """Load the story."""
        trajectory = saved_runs.load_choice(story, story_roots())
        host.NodeProgress().say(summarize(trajectory).sentence)
        return io.NodeOutput(trajectory, report(trajectory))
