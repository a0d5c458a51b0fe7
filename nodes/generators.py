"""Nodes that provide generators."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from . import host
from .comfy_generator import ComfyGenerator
from .draw_settings import EDIT_MODES, FLUX2, GRID, DrawSettings, edit_mode_of
from .sockets import CATEGORY, GeneratorSocket
from .surroundings import needing

FIELDS = DrawSettings.model_fields


class TinyWorldGenerator(io.ComfyNode):
    """The built-in image model: pages of a miniature picture book, on any machine in a moment."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveTinyWorldGenerator",
            display_name="Tiny World Generator",
            category=CATEGORY,
            description="The built-in image model of the tiny world. Needs no download and no graphics card.",
            search_aliases=["tiny world", "demo", "built-in generator"],
            outputs=[GeneratorSocket.Output("GENERATOR", tooltip="Connect it to a Critic Loop.")],
        )

    @classmethod
    def execute(cls) -> io.NodeOutput:
        from ..backend.generators import open_generator

        with needing("diffusers"):
            return io.NodeOutput(open_generator("tinyworld"))


class StepGenerator(io.ComfyNode):
    """Any image model that ComfyUI has loaded draws and edits the steps."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveStepGenerator",
            display_name="Step Generator",
            category=CATEGORY,
            description="Draws each step with the connected model: from text first, then as an edit of an earlier image.",
            search_aliases=["sampler", "ksampler", "flux", "klein", "edit", "reference latent"],
            inputs=[
                io.Model.Input("model", tooltip="Diffusion model, with or without LoRA."),
                io.Clip.Input("clip", tooltip="Text encoder of the model."),
                io.Vae.Input("vae", tooltip="VAE of the model."),
                io.Int.Input(
                    "width", default=1024, min=GRID, max=16384, step=GRID, tooltip=FIELDS["width"].description
                ),
                io.Int.Input(
                    "height",
                    default=1024,
                    min=GRID,
                    max=16384,
                    step=GRID,
                    tooltip=FIELDS["height"].description,
                ),
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
                io.Combo.Input("sampler", options=host.samplers(), default="euler", tooltip="Sampler."),
                io.Combo.Input(
                    "scheduler",
                    options=[FLUX2, *host.schedulers()],
                    default=FLUX2,
                    tooltip="Noise schedule; flux2 is the one of FLUX.2 models, the others are ComfyUI's.",
                ),
                io.Combo.Input(
                    "edit",
                    options=list(EDIT_MODES),
                    default="auto",
                    tooltip="How a step changes an image: reference latents for edit models (FLUX.2, Kontext...), "
                    "image to image for all others. Auto looks at the model and says so where it cannot know.",
                ),
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
                    "negative",
                    default="",
                    optional=True,
                    advanced=True,
                    tooltip=FIELDS["negative"].description,
                ),
            ],
            outputs=[GeneratorSocket.Output("GENERATOR", tooltip="Connect it to a Critic Loop.")],
        )

    @classmethod
    def execute(cls, model: Any, clip: Any, vae: Any, edit: str, **settings: Any) -> io.NodeOutput:
        mode = edit_mode_of(type(model.model).__name__, edit)
        return io.NodeOutput(ComfyGenerator(model, clip, vae, DrawSettings(edit=mode, **settings)))
