"""Nodes that show a finished story."""

from __future__ import annotations

from comfy_api.latest import io

from ..backend.types import Trajectory
from . import host
from .images import to_batch
from .sockets import CATEGORY, TrajectorySocket


class Storyboard(io.ComfyNode):
    """One picture of the whole story: every step with its image and its text."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveStoryboard",
            display_name="Storyboard",
            category=CATEGORY,
            description="Lays a story out on one sheet: every step's image with its text.",
            search_aliases=["contact sheet", "comic", "grid", "story", "collage"],
            is_output_node=True,
            inputs=[TrajectorySocket.Input("trajectory", tooltip="From a Critic Loop.")],
            outputs=[io.Image.Output("sheet", tooltip="The sheet, ready to save.")],
        )

    @classmethod
    def execute(cls, trajectory: Trajectory) -> io.NodeOutput:
        from ..backend.exporters.sheet import contact_sheet

        sheet = to_batch(contact_sheet(trajectory))
        return io.NodeOutput(sheet, ui=host.shown_images([sheet], cls))
