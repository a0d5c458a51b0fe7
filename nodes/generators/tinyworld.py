"""Node for the image model of the tiny world."""

from __future__ import annotations

from comfy_api.latest import io

from ..inputs.requirements import require_library
from ..inputs.sockets import CATEGORY, GeneratorSocket
from .common_inputs import TO_LOOP


class TinyWorldNode(io.ComfyNode):
    """The built-in image model: pages of a miniature picture book, on any machine in a moment."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveTinyWorldGenerator",
            display_name="Tiny World Generator",
            category=CATEGORY,
            description="The built-in image model of the tiny world. Needs no download and no graphics card.",
            search_aliases=["tiny world", "demo", "built-in generator"],
            outputs=[GeneratorSocket.Output("GENERATOR", tooltip=TO_LOOP)],
        )

    @classmethod
    def execute(cls) -> io.NodeOutput:
        from ...backend.generators import open_generator

        with require_library("diffusers"):
            return io.NodeOutput(open_generator("tinyworld"))
