"""Node that shows a story on one sheet."""

from __future__ import annotations

from typing import Literal

from comfy_api.latest import io

from ...backend.exporters.layout.typesetting import font_note
from ...backend.exporters.sheet import contact_sheet
from ...backend.types import Trajectory
from .. import host
from ..inputs.connected import TRAJECTORY, check_connected
from ..inputs.images import to_batch
from ..inputs.sockets import CATEGORY, TrajectorySocket
from ..inputs.validation import in_range
from .incomplete import incomplete_line, shown_incomplete


class Storyboard(io.ComfyNode):
    """Lays out a story on one sheet: every step with its image and text."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return io.Schema(
            node_id="InterleaveStoryboard",
            display_name="Storyboard",
            category=CATEGORY,
            description="Lays out the story on one sheet: every step's image with its text.",
            search_aliases=["contact sheet", "comic", "grid", "story", "collage"],
            is_output_node=True,
            inputs=[
                TrajectorySocket.Input("trajectory", tooltip="From Critic Loop, Attempt End or Load Story."),
                io.Combo.Input(
                    "show",
                    options=["chosen", "attempts", "audience"],
                    default="chosen",
                    tooltip="chosen: the kept image of every step. attempts: all attempts of every step side "
                    "by side. audience: only kept images and texts, for readers.",
                ),
                io.Int.Input(
                    "columns",
                    default=0,
                    min=0,
                    max=100,
                    advanced=True,
                    tooltip="Number of images side by side. 0 = automatic.",
                ),
                io.Int.Input(
                    "cell",
                    default=320,
                    min=48,
                    max=2048,
                    step=16,
                    advanced=True,
                    tooltip="Longer side of each image on the sheet, in pixels.",
                ),
                io.Boolean.Input("captions", default=True, tooltip="Show each step's text below its image."),
            ],
            outputs=[io.Image.Output("sheet", tooltip="The sheet as an image, for example for Save Image.")],
        )

    @classmethod
    def execute(
        cls,
        trajectory: Trajectory,
        show: Literal["chosen", "attempts", "audience"],
        columns: int,
        cell: int,
        captions: bool,
    ) -> io.NodeOutput:
        """Lay out the sheet."""
        check_connected("Storyboard", TRAJECTORY, trajectory=trajectory)
        in_range("Storyboard", 0, 100, columns=columns)
        in_range("Storyboard", 48, 2048, cell=cell)
        notes = (incomplete_line(trajectory), font_note(trajectory) if captions else "")
        host.NodeProgress().say(" · ".join(filter(None, notes)))
        sheet = to_batch(contact_sheet(trajectory, columns or None, cell, show, captions))
        return io.NodeOutput(sheet, ui=host.shown_images([sheet], cls) | shown_incomplete(trajectory))
