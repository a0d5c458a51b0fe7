"""The node that hands parts of the artist's own graph to the Step Generator.

Decision: a node of sockets alone, beside the Step Generator: who needs none of them sees one free socket
there, not seven.
"""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ..inputs.sockets import CATEGORY, StepOptionsSocket
from ..sampling.step_options import StepOptions


class StepOptionsNode(io.ComfyNode):
    """Guider, sampler, sigmas, noise, negative, ControlNet and mask of a graph, for every step."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveStepOptions",
            display_name="Step Options",
            category=CATEGORY,
            description="Parts of a graph of your own that the Step Generator takes in place of its own.",
            search_aliases=["guider", "sigmas", "noise", "controlnet", "inpaint", "mask", "negative"],
            inputs=[
                io.Guider.Input(
                    "guider",
                    optional=True,
                    tooltip="Guides every step in place of cfg. Its prompts are replaced by the step's; cfg "
                    "1 then only means that the negative is left empty.",
                ),
                io.Sampler.Input("sampler", optional=True, tooltip="Used in place of the widget 'sampler'."),
                io.Sigmas.Input(
                    "sigmas",
                    optional=True,
                    tooltip="Used in place of 'scheduler' and 'steps'. An edit image to image takes the last "
                    "part of them, as long as 'denoise' says.",
                ),
                io.Noise.Input(
                    "noise",
                    optional=True,
                    tooltip="The kind of noise. Its seed is replaced by that of the step and the try.",
                ),
                io.Conditioning.Input(
                    "negative",
                    optional=True,
                    tooltip="A ready-made negative, in place of the text 'negative'.",
                ),
                io.Conditioning.Input(
                    "conditioning",
                    optional=True,
                    tooltip="What is applied to this conditioning, such as ControlNet, is applied to every "
                    "step's. Its text is not used.",
                ),
                io.Mask.Input(
                    "mask",
                    optional=True,
                    tooltip="What an edit may change; all else stays as it is, to the pixel. A step without "
                    "an image before it is not masked.",
                ),
            ],
            outputs=[StepOptionsSocket.Output("OPTIONS", tooltip="Connect it to a Step Generator.")],
        )

    @classmethod
    def execute(cls, **given: Any) -> io.NodeOutput:
        return io.NodeOutput(StepOptions(**given))
