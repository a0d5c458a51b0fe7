"""Node that passes parts of the user's graph to the Step Generator.

The sockets are on a separate node, so users who need none of them see one free socket and not seven.
"""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ..inputs.sockets import CATEGORY, StepOptionsSocket
from ..sampling.step_options import StepOptions


class StepOptionsNode(io.ComfyNode):
    """Collects guider, sampler, sigmas, noise, negative, ControlNet and mask for every step."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return io.Schema(
            node_id="InterleaveStepOptions",
            display_name="Step Options",
            category=CATEGORY,
            description="Replaces parts of the Step Generator with parts of your own graph: guider, sampler, "
            "sigmas, noise, negative, ControlNet, mask.",
            search_aliases=["guider", "sigmas", "noise", "controlnet", "inpaint", "mask", "negative"],
            inputs=[
                io.Guider.Input(
                    "guider",
                    optional=True,
                    tooltip="Guides every step instead of cfg. Its prompts are replaced by those of the "
                    "step. With cfg 1, the negative is empty.",
                ),
                io.Sampler.Input("sampler", optional=True, tooltip="Replaces 'sampler'."),
                io.Sigmas.Input(
                    "sigmas",
                    optional=True,
                    tooltip="Replaces 'scheduler' and 'steps'. Image to image uses the last part of them, by "
                    "'denoise'.",
                ),
                io.Noise.Input(
                    "noise",
                    optional=True,
                    tooltip="Kind of noise. Its seed is ignored: every attempt has its own.",
                ),
                io.Conditioning.Input(
                    "negative",
                    optional=True,
                    tooltip="Negative conditioning. Replaces the text 'negative'.",
                ),
                io.Conditioning.Input(
                    "conditioning",
                    optional=True,
                    tooltip="ControlNet and the like: what is applied to this conditioning is applied to "
                    "every step. Its text is ignored.",
                ),
                io.Mask.Input(
                    "mask",
                    optional=True,
                    tooltip="White: the part that an edit may change. All other pixels stay exactly the "
                    "same. Steps generated from text are not masked.",
                ),
            ],
            outputs=[StepOptionsSocket.Output("OPTIONS", tooltip="Connect it to a Step Generator.")],
        )

    @classmethod
    def execute(cls, **given: Any) -> io.NodeOutput:
        """Collect the parts."""
        return io.NodeOutput(StepOptions(**given))
