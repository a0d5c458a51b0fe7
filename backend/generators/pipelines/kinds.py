"""How each diffusers pipeline class edits an image, in one table.

Decision: the way of editing follows from the class, because the pipeline's weights were trained for it, and
is never tried out. A class that is not listed edits by image-to-image where diffusers itself names its
image-to-image twin; otherwise opening it is an error, and the user can say `edit=reference` or
`edit=img2img`.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ...errors import GeneratorError, SettingsError

if TYPE_CHECKING:
    from PIL import Image

EditMode = Literal["reference", "img2img"]
Batching = Literal["none", "one source", "any source"]


@dataclass(frozen=True)
class PipelineKind:
    """What a pipeline class needs beyond prompt and image."""

    edit: EditMode
    """`reference`: the source is an input beside the noise. `img2img`: the source, noised, is the start."""
    needs_source: bool = False
    """It cannot draw from text alone: a white page of the target size stands in for the missing source."""
    guidance: str = "guidance_scale"
    """The argument that scales classifier-free guidance."""
    negative: str | None = None
    """Negative prompt without which the class leaves its guidance off."""
    mask: str | None = None
    """The argument that takes a mask of what may change, white for change."""
    needs_mask: bool = False
    """It only repaints what a mask shows."""
    most_images: int = 1
    """Images that it can be shown, the source among them: a class that takes a list of them would take any
    number, and here it is what ComfyUI's own nodes give the same model."""
    distilled_steps: int | None = None
    """Sampling steps of the class's step-distilled checkpoints (configuration `is_distilled`)."""
    batch: Batching = "none"
    """What one call can draw besides several prompts and seeds: edits of one source (a list of images would
    be several references), of any sources of one size, or nothing that was tried here."""


_QWEN_EDIT = PipelineKind("reference", needs_source=True, guidance="true_cfg_scale", negative=" ")
_QWEN_DRAW = PipelineKind("img2img", guidance="true_cfg_scale", negative=" ")

KINDS: dict[str, PipelineKind] = {
    "Flux2Pipeline": PipelineKind("reference", most_images=9),
    "Flux2KleinPipeline": PipelineKind("reference", most_images=9, distilled_steps=4, batch="one source"),
    "Flux2KleinKVPipeline": PipelineKind("reference", most_images=9),
    "FluxKontextPipeline": PipelineKind("reference", batch="one source"),
    "QwenImageEditPipeline": _QWEN_EDIT,
    "QwenImageEditPlusPipeline": replace(_QWEN_EDIT, most_images=3),
    "QwenImage21Pipeline": PipelineKind("reference", guidance="true_cfg_scale", most_images=10),
    "LongCatImageEditPipeline": PipelineKind("reference", needs_source=True),
    "BriaFibo2Pipeline": PipelineKind("reference", mask="mask"),
    "FluxFillPipeline": PipelineKind("reference", needs_source=True, mask="mask_image", needs_mask=True),
    "StableDiffusionPipeline": PipelineKind("img2img", batch="any source"),
    "QwenImagePipeline": _QWEN_DRAW,
    "QwenImageImg2ImgPipeline": _QWEN_DRAW,
}


@dataclass(frozen=True)
class PipelinePair:
    """The pipelines that draw and edit, sharing their weights; `draw` None: no image comes from text
    alone."""

    kind: PipelineKind
    draw: Any | None
    edit: Any

    def takes_negative(self, pipeline: Any) -> bool:
        """Whether this one of the two makes use of a negative prompt. Guidance-distilled models take both
        arguments, and use it only with the other guidance."""
        accepted = arguments_of(pipeline)
        distilled = "true_cfg_scale" in accepted and self.kind.guidance != "true_cfg_scale"
        return "negative_prompt" in accepted and not distilled

    def looks_at_negatives(self, guidance: float | None) -> bool:
        """Whether a negative prompt shapes every image at this guidance (None: the pipelines' own)."""
        used = all(self.takes_negative(one) for one in (self.draw, self.edit) if one is not None)
        return used and (guidance is None or guidance > 1)


def pair_pipelines(pipeline: Any, edit: EditMode | Literal["auto"] = "auto") -> PipelinePair:
    """Pair a loaded pipeline with its twin as its class demands; raises SettingsError where the class cannot
    edit."""
    name = type(pipeline).__name__
    known = KINDS.get(name)
    mode = edit if edit != "auto" else known.edit if known else "img2img"
    if mode == "reference":
        if "image" not in arguments_of(pipeline):
            raise SettingsError(f"{name} takes no reference image.", "Leave out edit=reference.")
        kind = known or PipelineKind(
            "reference", needs_source=_twin(pipeline, "AutoPipelineForText2Image") is None
        )
        return PipelinePair(replace(kind, edit=mode), None if kind.needs_source else pipeline, pipeline)
    twin = _twin(pipeline, "AutoPipelineForImage2Image")
    if twin is None or not {"image", "strength"} <= arguments_of(twin):
        raise SettingsError(
            f"{name} is not known to edit images, and diffusers has no image-to-image pipeline for it.",
            "Choose another model, or say edit=reference if its `image` argument is a reference to edit.",
        )
    kind = replace(known or PipelineKind(mode), edit=mode)
    return PipelinePair(kind, _twin(pipeline, "AutoPipelineForText2Image"), twin)


def arguments_of(pipeline: Any) -> set[str]:
    """Names of the arguments that a pipeline's call takes."""
    return set(inspect.signature(type(pipeline).__call__).parameters) - {"self"}


def images_of(pipeline: Any, arguments: dict[str, Any]) -> tuple[list[Image.Image], bool]:
    """Call a pipeline; return its images and whether its safety checker blacked one out.

    Floats are requested where the pipeline can return them, since bytes do not show that a model overflowed.
    They are converted to bytes by diffusers' own function.

    Raises:
        GeneratorError: A pixel is NaN or infinite.
    """
    import numpy as np
    from diffusers.image_processor import VaeImageProcessor

    if "output_type" in arguments_of(pipeline):
        arguments = {**arguments, "output_type": "np"}
    output = pipeline(**arguments)
    images = output.images
    if isinstance(images, np.ndarray):
        if not np.isfinite(images).all():
            raise GeneratorError(
                f"{type(pipeline).__name__} gave pixels that are not finite numbers (NaN or infinite).",
                "The model overflowed: choose the dtype bfloat16 or float32.",
            )
        images = VaeImageProcessor.numpy_to_pil(images)
    return list(images), any(getattr(output, "nsfw_content_detected", None) or ())


def _twin(pipeline: Any, finder: str) -> Any | None:
    import diffusers

    try:
        return getattr(diffusers, finder).from_pipe(pipeline)
    except ValueError:  # the documented answer for a class that has no twin of that kind
        return None
