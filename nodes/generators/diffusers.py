"""Node for diffusers pipelines, which the host moves on and off the GPU."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.generators.color_match import OFF, color_matched
from .. import host
from ..inputs.requirements import require_library
from ..inputs.sockets import CATEGORY, GeneratorSocket
from ..inputs.validation import in_range
from .inputs.color_match_input import color_match_input
from .inputs.common_inputs import TO_LOOP, common_inputs, common_options
from .inputs.enhancer_inputs import ENHANCER, enhancer_inputs, with_enhancer
from .managed_pipeline import ManagedPipeline
from .pipeline_changes import LORA_DEFAULTS, changes_inputs, changes_options
from .pipeline_names import pipeline_spec

OWN_DEFAULTS: dict[str, Any] = {"strength": 0.6, "edit": "auto", "dtype": "auto"}
DTYPES = ["auto", "bfloat16", "float16", "float32"]


class DiffusersNode(io.ComfyNode):
    """Generates and edits images with a diffusers pipeline, which ComfyUI moves on and off the GPU."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return io.Schema(
            node_id="InterleaveDiffusersGenerator",
            display_name="Diffusers Generator",
            category=CATEGORY,
            description="Generates the images with a diffusers pipeline, for models that ComfyUI itself "
            "cannot load.",
            search_aliases=["diffusers", "pipeline", "hugging face", "generator"],
            inputs=[
                io.String.Input(
                    "pipeline",
                    default="",
                    tooltip="A folder in models/diffusers (with its model_index.json), or a Hugging Face id "
                    "(OWNER/NAME).",
                ),
                io.Boolean.Input(
                    "download",
                    default=False,
                    tooltip="Download a Hugging Face id that is not on this machine. Off: nothing is "
                    "downloaded.",
                ),
                *common_inputs("the pipeline"),
                io.Float.Input(
                    "strength",
                    default=0.6,
                    min=0.01,
                    max=1.0,
                    step=0.01,
                    optional=True,
                    advanced=True,
                    tooltip="Image to image only: how much of the source image is replaced, 0 to 1.",
                ),
                io.Combo.Input(
                    "edit",
                    options=["auto", "reference", "img2img"],
                    default="auto",
                    optional=True,
                    advanced=True,
                    tooltip="How the pipeline edits an image. Auto: by the pipeline's class.",
                ),
                io.Combo.Input(
                    "dtype",
                    options=DTYPES,
                    default="auto",
                    optional=True,
                    advanced=True,
                    tooltip="Precision of the weights. Auto: 16-bit on a GPU, 32-bit on a CPU.",
                ),
                color_match_input(),
                *changes_inputs(),
                *enhancer_inputs(),
            ],
            outputs=[GeneratorSocket.Output("GENERATOR", tooltip=TO_LOOP)],
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
    from ...backend.generators import open_generator

    spec = pipeline_spec(name, host.pipeline_roots())
    if options["dtype"] == "auto":
        options = options | {"dtype": host.pipeline_dtype()}
    with require_library("diffusers"):
        return open_generator(spec, device="cpu", **options)
