"""Nodes that generate images with a diffusion model loaded by ComfyUI, and with parts of the user's graph.

The sockets for such parts are on a separate node, so users who need none of them see one free socket and not
seven.
"""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.generators.wrappers import OFF, color_matched
from .. import host
from ..inputs.images import to_pictures
from ..inputs.sockets import (
    CATEGORY,
    CLIP,
    MODEL,
    VAE,
    GeneratorSocket,
    Kind,
    StepOptionsSocket,
    check_connected,
    check_optional,
    instance_of,
)
from ..inputs.validation import checked
from ..sampling.comfy_generator import ComfyGenerator, LoadedModels
from ..sampling.families.family import AUTO, Family, Recommended
from ..sampling.families.registry import EDIT_CHOICES, FAMILIES
from ..sampling.settings import FLUX2, GRID, MAX_REFERENCES, SamplingSettings
from ..sampling.step_options import StepOptions
from .generator_inputs import ENHANCER, color_match_input, enhancer_inputs, with_enhancer

SIZE_TOOLTIPS = {
    "width": "Width in pixels of images generated from text. An edit keeps the shape of its source image.",
    "height": "Height in pixels of images generated from text. An edit keeps the shape of its source image "
    "and has width x height pixels in total.",
}
OPTIONS = Kind("Step Options", instance_of(StepOptions))


class StepGenerator(io.ComfyNode):
    """Generates and edits images with any image model loaded by ComfyUI."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return io.Schema(
            node_id="InterleaveStepGenerator",
            display_name="Step Generator",
            category=CATEGORY,
            description="Generates the images with the connected model: the first from text, each later one "
            "as an edit of an earlier image.",
            search_aliases=[
                "sampler",
                "ksampler",
                "flux",
                "klein",
                "kontext",
                "qwen edit",
                "edit",
                "reference latent",
            ],
            inputs=[
                io.Model.Input(
                    "model", tooltip="Diffusion model. A LoRA goes between its loader and this input."
                ),
                io.Clip.Input("clip", tooltip="Text encoder of the diffusion model."),
                io.Vae.Input("vae", tooltip="VAE of the diffusion model."),
                *_size_inputs(),
                io.Int.Input(
                    "steps",
                    default=4,
                    min=1,
                    max=1000,
                    tooltip="Sampling steps of one image: 4 for distilled models (klein, Lightning), 20 or "
                    "more for base models.",
                ),
                io.Float.Input(
                    "cfg",
                    default=1.0,
                    min=0.0,
                    max=100.0,
                    step=0.1,
                    round=0.01,
                    tooltip="Classifier-free guidance: 1 for distilled models (klein, Lightning), 5 for "
                    "FLUX.2 klein base, 4 for Qwen-Image-Edit, 6 to 7 for SDXL.",
                ),
                io.Combo.Input(
                    "sampler",
                    options=host.samplers(),
                    default="euler",
                    tooltip="Sampler. Use euler for FLUX.2.",
                ),
                io.Combo.Input(
                    "scheduler",
                    options=[FLUX2, *host.schedulers()],
                    default=FLUX2,
                    tooltip="Noise schedule. flux2 is for FLUX.2 only; use simple or normal for other "
                    "models.",
                ),
                io.Combo.Input(
                    "edit",
                    options=list(EDIT_CHOICES),
                    default=AUTO,
                    extra_dict=model_settings(),
                    tooltip="How a step edits an image: as the model's official workflow does (FLUX.2: "
                    "reference latents; newer families: ComfyUI's own encode node), or image to image for "
                    "models that cannot edit. Auto detects it, or reports what to choose.",
                ),
                *_advanced_inputs(),
                io.Autogrow.Input(
                    "references",
                    template=io.Autogrow.TemplateNames(
                        io.Image.Input(
                            "reference",
                            tooltip="A reference image that the model sees at every step. In prompts, the "
                            "image that the step edits is image 1 and references follow; without one, "
                            "references start at image 1.",
                        ),
                        names=[f"reference_{number}" for number in range(1, MAX_REFERENCES + 1)],
                        min=0,
                    ),
                    optional=True,
                    tooltip="Character or style images that the image model sees at every step, for models "
                    "that edit. The critic does not see them.",
                ),
                StepOptionsSocket.Input(
                    "options",
                    optional=True,
                    tooltip="Guider, sampler, sigmas, noise, negative, ControlNet or mask of your own graph. "
                    "Connect Step Options.",
                ),
                *enhancer_inputs(),
            ],
            outputs=[GeneratorSocket.Output("GENERATOR", tooltip="Connect it to a Critic Loop.")],
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


def _size_inputs() -> list[io.Input]:
    return [
        io.Int.Input(side, default=1024, min=GRID, max=16384, step=GRID, tooltip=tooltip)
        for side, tooltip in SIZE_TOOLTIPS.items()
    ]


def _advanced_inputs() -> list[io.Input]:
    return [
        io.Float.Input(
            "denoise",
            default=0.75,
            min=0.01,
            max=1.0,
            step=0.01,
            optional=True,
            advanced=True,
            tooltip="Image to image only: how much of the source image is replaced, 0 to 1. Edit models "
            "ignore it.",
        ),
        io.String.Input(
            "negative",
            default="",
            optional=True,
            advanced=True,
            tooltip="Negative prompt: what must not appear. Ignored at cfg 1 (klein, Lightning).",
        ),
        io.Float.Input(
            "guidance",
            default=0.0,
            min=0.0,
            max=100.0,
            step=0.1,
            round=0.01,
            optional=True,
            advanced=True,
            tooltip="Second guidance of some models: distilled guidance of FLUX dev models, image guidance "
            "of OmniGen2. 0 = the model's default: 2.5 for Kontext, 3.5 for FLUX.1 dev, 4 for FLUX.2 dev, 2 "
            "for OmniGen2.",
        ),
        color_match_input(),
    ]


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
