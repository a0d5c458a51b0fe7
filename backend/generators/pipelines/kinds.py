"""A table of how each diffusers pipeline class edits an image.

The edit mode follows from the class, because the pipeline's weights were trained for it. It is never found by
trial. A class that is not listed edits by image-to-image if diffusers has an image-to-image counterpart for
it. Otherwise opening it is an error, and the user can set `edit=reference` or `edit=img2img`.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import Any, Literal

from ...errors import SettingsError

EditMode = Literal["reference", "img2img"]
Batching = Literal["none", "one source", "any source"]


@dataclass(frozen=True)
class PipelineKind:
    """What a pipeline class needs in addition to prompt and image."""

    edit: EditMode
    """`reference`: the source image is an additional input.

    `img2img`: the noised source image is the start.
    """
    needs_source: bool = False
    """Cannot generate from text alone: a white image of the target size replaces the missing source image."""
    guidance: str = "guidance_scale"
    """Name of the argument for classifier-free guidance."""
    negative: str | None = None
    """Negative prompt without which the class disables its guidance."""
    mask: str | None = None
    """Name of the argument for a mask of the area that may change (white)."""
    needs_mask: bool = False
    """Only repaints the area of a mask."""
    most_images: int = 1
    """Maximum number of images shown to the model, including the source image.

    A class that accepts a list would accept any number. The values here are those of ComfyUI's own nodes.
    """
    mark: str = "Image {}"
    """Notation of an image number in the prompts that the model was trained with."""
    distilled_steps: int | None = None
    """Sampling steps of the class's step-distilled checkpoints (configuration `is_distilled`)."""
    batch: Batching = "none"
    """What one call can combine, in addition to several prompts and seeds.

    Edits of one source image (a list of images would be several references), edits of any source images of
    one size, or nothing that was tested.
    """


_QWEN_EDIT = PipelineKind("reference", needs_source=True, guidance="true_cfg_scale", negative=" ")
_QWEN_DRAW = PipelineKind("img2img", guidance="true_cfg_scale", negative=" ")

KINDS: dict[str, PipelineKind] = {
    "Flux2Pipeline": PipelineKind("reference", most_images=9),
    "Flux2KleinPipeline": PipelineKind("reference", most_images=9, distilled_steps=4, batch="one source"),
    "Flux2KleinKVPipeline": PipelineKind("reference", most_images=9),
    "FluxKontextPipeline": PipelineKind("reference", batch="one source"),
    "QwenImageEditPipeline": _QWEN_EDIT,
    "QwenImageEditPlusPipeline": replace(_QWEN_EDIT, most_images=3, mark="Picture {}"),
    "QwenImage21Pipeline": PipelineKind(
        "reference", guidance="true_cfg_scale", most_images=10, mark="<image{}>"
    ),
    "LongCatImageEditPipeline": PipelineKind("reference", needs_source=True),
    "BriaFibo2Pipeline": PipelineKind("reference", mask="mask"),
    "FluxFillPipeline": PipelineKind("reference", needs_source=True, mask="mask_image", needs_mask=True),
    "StableDiffusionPipeline": PipelineKind("img2img", batch="any source"),
    "QwenImagePipeline": _QWEN_DRAW,
    "QwenImageImg2ImgPipeline": _QWEN_DRAW,
}


@dataclass(frozen=True)
class PipelinePair:
    """The pipelines that generate and edit, sharing their weights.

    `draw` is None if the model cannot generate from text alone.
    """

    kind: PipelineKind
    draw: Any | None
    edit: Any

    def takes_negative(self, pipeline: Any) -> bool:
        """Return whether a pipeline uses a negative prompt.

        Guidance-distilled models accept both guidance arguments, and use a negative prompt only with the
        other one.
        """
        accepted = arguments_of(pipeline)
        distilled = "true_cfg_scale" in accepted and self.kind.guidance != "true_cfg_scale"
        return "negative_prompt" in accepted and not distilled

    def looks_at_negatives(self, guidance: float | None) -> bool:
        """Return whether a negative prompt affects every image at this guidance.

        None is the pipelines' default.
        """
        used = all(self.takes_negative(one) for one in (self.draw, self.edit) if one is not None)
        return used and (guidance is None or guidance > 1)


def pair_pipelines(pipeline: Any, edit: EditMode | Literal["auto"] = "auto") -> PipelinePair:
    """Pair a loaded pipeline with its counterpart, as its class requires.

    Args:
        pipeline: Loaded pipeline.
        edit: Edit mode. "auto" follows from the class.

    Raises:
        SettingsError: The class cannot edit.
    """
    name = type(pipeline).__name__
    known = KINDS.get(name)
    mode = edit if edit != "auto" else known.edit if known else "img2img"
    if mode == "reference":
        if "image" not in arguments_of(pipeline):
            raise SettingsError(f"{name} does not accept a reference image.", "Omit edit=reference.")
        kind = known or PipelineKind(
            "reference", needs_source=_twin(pipeline, "AutoPipelineForText2Image") is None
        )
        return PipelinePair(replace(kind, edit=mode), None if kind.needs_source else pipeline, pipeline)
    twin = _twin(pipeline, "AutoPipelineForImage2Image")
    if twin is None or not {"image", "strength"} <= arguments_of(twin):
        raise SettingsError(
            f"{name} cannot edit images: it is not a known editing class, and diffusers has no "
            "image-to-image pipeline for it.",
            "Choose another model, or set edit=reference if its argument `image` is the image to edit.",
        )
    kind = replace(known or PipelineKind(mode), edit=mode)
    return PipelinePair(kind, _twin(pipeline, "AutoPipelineForText2Image"), twin)


def arguments_of(pipeline: Any) -> set[str]:
    """Return the names of the arguments of a pipeline's call."""
    return set(inspect.signature(type(pipeline).__call__).parameters) - {"self"}


def _twin(pipeline: Any, finder: str) -> Any | None:
    import diffusers

    try:
        return getattr(diffusers, finder).from_pipe(pipeline)
    except ValueError:  # documented: the class has no such counterpart
        return None
