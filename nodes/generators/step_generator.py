"""The node that draws with whatever diffusion model the artist has loaded."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.generators.color_match import OFF, color_matched
from .. import host
from ..inputs.connected import CLIP, MODEL, VAE, Kind, check_connected, check_optional, instance_of
from ..inputs.images import to_pictures
from ..inputs.sockets import CATEGORY, GeneratorSocket, StepOptionsSocket
from ..inputs.validation import checked
from ..sampling.comfy_generator import ComfyGenerator, LoadedModels
from ..sampling.model_families import AUTO, EDIT_CHOICES
from ..sampling.settings import FLUX2, GRID, MAX_REFERENCES, SamplingSettings
from ..sampling.step_options import StepOptions
from .color_match_input import color_match_input

FIELDS = SamplingSettings.model_fields
OPTIONS = Kind("Step Options", instance_of(StepOptions))


class StepGenerator(io.ComfyNode):
    """Any image model that ComfyUI has loaded draws and edits the steps."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveStepGenerator",
            display_name="Step Generator",
            category=CATEGORY,
            description=(
                "Draws each step with the connected model: from text first, then as an edit of an "
                "earlier image."
            ),
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
                io.Model.Input("model", tooltip="Diffusion model, with or without LoRA."),
                io.Clip.Input("clip", tooltip="Text encoder of the model."),
                io.Vae.Input("vae", tooltip="VAE of the model."),
                *_size_inputs(),
                io.Int.Input("steps", default=4, min=1, max=1000, tooltip=FIELDS["steps"].description),
                io.Float.Input(
                    "cfg",
                    default=1.0,
                    min=0.0,
                    max=100.0,
                    step=0.1,
                    round=0.01,
                    tooltip=FIELDS["cfg"].description,
                ),
                io.Combo.Input(
                    "sampler", options=host.samplers(), default="euler", tooltip="Sampler; euler for FLUX.2."
                ),
                io.Combo.Input(
                    "scheduler",
                    options=[FLUX2, *host.schedulers()],
                    default=FLUX2,
                    tooltip="Noise schedule; flux2 is the one of FLUX.2 models, the others are ComfyUI's.",
                ),
                io.Combo.Input(
                    "edit",
                    options=list(EDIT_CHOICES),
                    default=AUTO,
                    tooltip="How a step changes an image: as the model's official graph does it (reference "
                    "latents are FLUX.2's way; encode node is for newer families, whose own node of ComfyUI "
                    "reads the images), or image to image for models without edits. Auto looks at the model "
                    "and says so where it cannot know.",
                ),
                *_advanced_inputs(),
                io.Autogrow.Input(
                    "references",
                    template=io.Autogrow.TemplateNames(
                        io.Image.Input(
                            "reference", tooltip="An image that every step is shown beside its source."
                        ),
                        names=[f"reference_{number}" for number in range(1, MAX_REFERENCES + 1)],
                        min=0,
                    ),
                    optional=True,
                    tooltip="Images pinned for all steps, such as a character sheet. Only for edit models.",
                ),
                StepOptionsSocket.Input(
                    "options",
                    optional=True,
                    tooltip="Parts of a graph of your own: guider, sampler, sigmas, noise, negative, "
                    "ControlNet, mask. Connect Step Options.",
                ),
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
        drawing = checked(SamplingSettings, "Step Generator", **settings)
        generator = ComfyGenerator(
            LoadedModels(model, clip, vae), drawing, edit, pinned, options=options or StepOptions()
        )
        return io.NodeOutput(color_matched(generator, color_match))


def _size_inputs() -> list[io.Input]:
    return [
        io.Int.Input(side, default=1024, min=GRID, max=16384, step=GRID, tooltip=FIELDS[side].description)
        for side in ("width", "height")
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
            tooltip=FIELDS["denoise"].description,
        ),
        io.String.Input(
            "negative", default="", optional=True, advanced=True, tooltip=FIELDS["negative"].description
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
            tooltip=FIELDS["guidance"].description,
        ),
        color_match_input(),
    ]
