"""Node for diffusers pipelines, which the host moves on and off the GPU."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from comfy_api.latest import io

from ...backend.core.errors import ChatError, GeneratorError, SettingsError
from ...backend.core.pictures import Picture
from ...backend.core.seams.generator import Generator, GeneratorWrapper
from ...backend.core.types import StepSettings
from ...backend.models.generators.wrappers import OFF, color_matched
from ...backend.models.vram.models import pipeline_shape
from ...backend.models.vram.placement import image_work
from ...backend.models.vram.shapes import ImageShape
from .. import host
from ..inputs.images import mask_picture
from ..inputs.named_models import pipeline_spec
from ..inputs.sockets import GeneratorSocket, node_schema
from ..inputs.validation import in_range, only_text, require_library
from .generator_inputs import (
    ENHANCER,
    color_match_input,
    common_inputs,
    common_options,
    enhancer_inputs,
    with_enhancer,
)

if TYPE_CHECKING:
    from ...backend.models.generators.pipelines.generator import DiffusersGenerator

NO_LORA = "none"
LORA_DEFAULTS: dict[str, Any] = {"lora": NO_LORA, "lora_scale": 1.0}
STRONGEST = 10.0
UNKNOWN_WORK = 2 * 1024**3
"""Working memory in bytes of a pipeline that cannot be estimated: about that of others at one megapixel."""
OWN_DEFAULTS: dict[str, Any] = {"strength": 0.6, "edit": "auto", "dtype": "auto"}
DTYPES = ["auto", "bfloat16", "float16", "float32"]


class DiffusersNode(io.ComfyNode):
    """Generates and edits images with a diffusers pipeline, which ComfyUI moves on and off the GPU."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveDiffusersGenerator",
            shown=("pipeline", "download"),
            inputs=[
                io.String.Input("pipeline", default=""),
                io.Boolean.Input("download", default=False),
                *common_inputs(),
                io.Float.Input("strength", default=0.6, min=0.01, max=1.0, step=0.01, optional=True),
                io.Combo.Input(
                    "edit", options=["auto", "reference", "img2img"], default="auto", optional=True
                ),
                io.Combo.Input("dtype", options=DTYPES, default="auto", optional=True),
                color_match_input(),
                *changes_inputs(),
                *enhancer_inputs(),
            ],
            outputs=[GeneratorSocket.Output("GENERATOR")],
        )

    @classmethod
    def execute(
        cls, pipeline: str, download: bool, color_match: str = OFF, mask: Any = None, **given: Any
    ) -> io.NodeOutput:
        """Open the pipeline."""
        changes = {name: given.pop(name) for name in LORA_DEFAULTS if name in given}
        own = {name: given.pop(name) for name in OWN_DEFAULTS if name in given}
        enhancing = {name: given.pop(name) for name in ENHANCER if name in given}
        options = {**OWN_DEFAULTS, **own, "download": download, **changes_options(mask, **changes)}
        in_range("Diffusers Generator", 0.01, 1, strength=options["strength"])
        generator = open_pipeline(pipeline, common_options(**given) | options)
        matched = color_matched(ManagedPipeline(generator), color_match)
        return io.NodeOutput(with_enhancer("Diffusers Generator", matched, enhancing))


def open_pipeline(name: str, options: dict[str, Any]) -> Any:
    """Open the diffusers generator of a pipeline in the host's folders, in RAM.

    The host moves it to the GPU before each image.

    Raises:
        SettingsError: The pipeline was not found, or an option is not valid.
    """
    from ...backend.models.generators import open_generator

    spec = pipeline_spec(name, host.pipeline_roots())
    if options["dtype"] == "auto":
        options = options | {"dtype": host.pipeline_dtype()}
    with require_library("diffusers"):
        return open_generator(spec, device="cpu", **options)


def changes_inputs() -> list[Any]:
    """Return the inputs, which follow a node's own."""
    return [
        io.Combo.Input("lora", options=[NO_LORA, *host.lora_names()], default=NO_LORA, optional=True),
        io.Float.Input("lora_scale", default=1.0, min=-STRONGEST, max=STRONGEST, step=0.05, optional=True),
        io.Mask.Input("mask", optional=True),
    ]


def changes_options(mask: Any, lora: str = NO_LORA, lora_scale: float = 1.0) -> dict[str, Any]:
    """Return the inputs as options of `diffusers:FOLDER`.

    Raises:
        SettingsError: The LoRA was not found, or a value is not valid.
    """
    only_text("Diffusers Generator", lora=lora)
    in_range("Diffusers Generator", -STRONGEST, STRONGEST, lora_scale=lora_scale)
    options: dict[str, Any] = {}
    if lora != NO_LORA:
        file = host.lora_file(lora)
        if file is None:
            raise SettingsError(
                f"Diffusers Generator: the LoRA {lora[:200]!r} was not found.",
                "Put its .safetensors file into models/loras and press R, or choose another one.",
            )
        options = {"lora": str(file), "lora_scale": lora_scale}
    if mask is not None:
        options["mask"] = mask_picture(mask, "The mask of Diffusers Generator")
    return options


class ManagedPipeline(GeneratorWrapper):
    """Wraps a DiffusersGenerator that was opened on the CPU."""

    inner: DiffusersGenerator

    def __init__(self, generator: DiffusersGenerator) -> None:
        import torch

        super().__init__(generator)
        generator.interrupted = host.interrupted
        generator.loras.find = host.lora_file
        generator.loras.where = "models/loras"
        self._one_at_a_time = threading.Lock()
        self._shape = _shape_of(generator)
        modules = torch.nn.ModuleList(generator.modules)
        self._bytes_each = max((weight.element_size() for weight in modules.parameters()), default=4)
        self._residence = host.ManagedModel.of(modules)

    def with_step_settings(self, settings: StepSettings) -> ManagedPipeline:
        """Return a pipeline with these settings that shares weights, lock and residence.

        Raises:
            SettingsError: A value does not fit the pipeline.
            GeneratorError: A LoRA cannot be loaded.
        """
        with self._one_at_a_time:
            return super().with_step_settings(settings)

    def working_bytes(self, source: Picture | None) -> int:
        """Return the working memory in bytes, in addition to the weights."""
        if self._shape is None:
            return UNKNOWN_WORK
        return image_work(self._shape, self.inner.area(source), self._bytes_each)

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Move the pipeline to the GPU and generate an image.

        Raises:
            GeneratorError: The pipeline failed or does not fit.
            Cancelled: The user pressed cancel.
        """
        with self._one_at_a_time:
            host.stop_if_interrupted()
            try:
                self._residence.ensure_loaded(self.working_bytes(source))
            except ChatError as error:
                raise GeneratorError(
                    "The diffusers pipeline does not fit into the GPU's memory.",
                    "Set the precision to bfloat16, use a smaller model, or use ComfyUI's own loaders with a "
                    "Step Generator.",
                ) from error
            return self.inner.draw(prompt, source, seed)

    # A wrapper's own ones would ask the pipeline itself, without moving it.
    draw_several, draw_many = Generator.draw_several, Generator.draw_many


def _shape_of(generator: DiffusersGenerator) -> ImageShape | None:
    """Return the shape of the pipeline for memory estimates, `None` if its parts have unusual names."""
    if generator.folder is None:
        return None
    try:
        return pipeline_shape(generator.folder)
    except SettingsError:
        return None
