"""Node for the image model of the tiny world."""

from __future__ import annotations

from comfy_api.latest import io

from ..inputs.requirements import require_library
from ..inputs.sockets import CATEGORY, GeneratorSocket
from .inputs.common_inputs import TO_LOOP


class TinyWorldNode(io.ComfyNode):
    """Generates toy images of 96 pixels with the built-in model."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return io.Schema(
            node_id="InterleaveTinyWorldGenerator",
            display_name="Tiny World Generator",
            category=CATEGORY,
            description="The built-in toy image model, for learning and testing. Needs no download and no "
            "GPU.",
            search_aliases=["tiny world", "demo", "built-in generator"],
            outputs=[GeneratorSocket.Output("GENERATOR", tooltip=TO_LOOP)],
        )

    @classmethod
    def execute(cls) -> io.NodeOutput:
        """Open the built-in model."""
        from ...backend.generators import open_generator

        with require_library("diffusers"):
            return io.NodeOutput(open_generator("tinyworld"))
