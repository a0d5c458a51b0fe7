"""Nodes that generate images with a diffusion model loaded by ComfyUI, and with parts of the user's graph.

The sockets for such parts are on a separate node, so users who need none of them see one free socket and not
seven.
"""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.models.generators.wrappers import OFF, color_matched
from .. import host
from ..inputs.images import to_pictures
from ..inputs.loop_inputs import setting_input
from ..inputs.sockets import (
    CLIP,
    MODEL,
    VAE,
    GeneratorSocket,
    Kind,
    StepOptionsSocket,
    check_connected,
    check_optional,
    instance_of,
    node_schema,
)
from ..inputs.validation import checked
from ..sampling.comfy_generator import ComfyGenerator, LoadedModels
from ..sampling.families.family import AUTO, Family, Recommended
from ..sampling.families.registry import EDIT_CHOICES, FAMILIES
from ..sampling.settings import FLUX2, GRID, MAX_REFERENCES, SamplingSettings
from ..sampling.step_options import StepOptions
from .generator_inputs import ENHANCER, color_match_input, enhancer_inputs, with_enhancer

OPTIONS = Kind("Step Options", instance_of(StepOptions))


class StepGenerator(io.ComfyNode):
    """Generates and edits images with any image model loaded by ComfyUI."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveStepGenerator",
            shown=("width", "height"),
            inputs=[
                io.Model.Input("model"),
                io.Clip.Input("clip"),
                io.Vae.Input("vae"),
                setting_input(SamplingSettings, "width", step=GRID),
                setting_input(SamplingSettings, "height", step=GRID),
                setting_input(SamplingSettings, "steps"),
                setting_input(SamplingSettings, "cfg", step=0.1, round=0.01),
                io.Combo.Input("sampler", options=host.samplers(), default="euler"),
                io.Combo.Input("scheduler", options=[FLUX2, *host.schedulers()], default=FLUX2),
                io.Combo.Input("edit", options=list(EDIT_CHOICES), default=AUTO, extra_dict=model_settings()),
                setting_input(SamplingSettings, "denoise", min=0.01, step=0.01, optional=True),
                setting_input(SamplingSettings, "negative", optional=True),
                setting_input(SamplingSettings, "guidance", step=0.1, round=0.01, optional=True),
                color_match_input(),
                io.Autogrow.Input(
                    "references",
                    template=io.Autogrow.TemplateNames(
                        io.Image.Input("reference"),
                        names=[f"reference_{number}" for number in range(1, MAX_REFERENCES + 1)],
                        min=0,
                    ),
                    optional=True,
                ),
                StepOptionsSocket.Input("options", optional=True),
                *enhancer_inputs(),
            ],
            outputs=[GeneratorSocket.Output("GENERATOR")],
        )

    @classmethod
    def execute(
        cls,
        model: Any,
        clip: Any,
        vae: Any,
        edit: str,
        color_match: str = OFF,
        references: dict[str, Any] | None = None,
        options: StepOptions | None = None,
        **settings: Any,
    ) -> io.NodeOutput:
        """Create the generator."""
        check_connected("Step Generator", MODEL, model=model)
        check_connected("Step Generator", CLIP, clip=clip)
        check_connected("Step Generator", VAE, vae=vae)
        check_optional("Step Generator", OPTIONS, options=options)
        pinned = [
            picture
            for batch in (references or {}).values()
            if batch is not None
            for picture in to_pictures(batch)
        ]
        enhancing = {name: settings.pop(name) for name in ENHANCER if name in settings}
        drawing = checked(SamplingSettings, "Step Generator", **settings)
        generator = ComfyGenerator(
            LoadedModels(model, clip, vae), drawing, edit, pinned, options=options or StepOptions()
        )
        matched = color_matched(generator, color_match)
        return io.NodeOutput(with_enhancer("Step Generator", matched, enhancing))


MODEL_SETTINGS = "interleave_model_settings"
"""Key in the definition of the widget `edit`; the browser reads it (web/model_settings.js)."""


def model_settings() -> dict[str, Any]:
    """Return the addition to a widget's definition: a name and the values of widgets for every model."""
    samplers, schedulers = set(host.samplers()), {FLUX2, *host.schedulers()}
    rows = [
        _row(family, one)
        for family in FAMILIES
        if family.method is not None
        for one in family.recommended
        if one.sampler in samplers and one.scheduler in schedulers
    ]
    return {MODEL_SETTINGS: rows}


def _row(family: Family, one: Recommended) -> dict[str, Any]:
    name = f"{family.name}: {one.variant}" if one.variant else family.name
    values = {"steps": one.steps, "cfg": one.cfg, "sampler": one.sampler, "scheduler": one.scheduler}
    return {"name": name, "values": {**values, "edit": family.method}}


class StepOptionsNode(io.ComfyNode):
    """Collects guider, sampler, sigmas, noise, negative, ControlNet and mask for every step."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveStepOptions",
            inputs=[
                io.Guider.Input("guider", optional=True),
                io.Sampler.Input("sampler", optional=True),
                io.Sigmas.Input("sigmas", optional=True),
                io.Noise.Input("noise", optional=True),
                io.Conditioning.Input("negative", optional=True),
                io.Conditioning.Input("conditioning", optional=True),
                io.Mask.Input("mask", optional=True),
            ],
            outputs=[StepOptionsSocket.Output("OPTIONS")],
        )

    @classmethod
    def execute(cls, **given: Any) -> io.NodeOutput:
        """Collect the parts."""
        return io.NodeOutput(StepOptions(**given))
