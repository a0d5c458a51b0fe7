"""A table of how each diffusers pipeline class edits an image, and the options that it supports.

The edit mode follows from the class, because the pipeline's weights were trained for it. It is never found by
trial. A class that is not listed edits by image-to-image if diffusers has an image-to-image counterpart for
it. Otherwise opening it is an error, and the user can set `edit=reference` or `edit=img2img`. An option that
the class would ignore is an error too, before anything is generated.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import Field

from ....core.errors import SettingsError
from ....core.pictures import Picture
from ....core.types import Value
from ....core.types.run_settings import ImageSize, sides_of

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
EditChoice = Literal["auto", "reference", "img2img"]
EditMode = Literal["reference", "img2img"]


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


_QWEN_EDIT = PipelineKind("reference", needs_source=True, guidance="true_cfg_scale", negative=" ")
_QWEN_DRAW = PipelineKind("img2img", guidance="true_cfg_scale", negative=" ")

KINDS: dict[str, PipelineKind] = {
    "Flux2Pipeline": PipelineKind("reference", most_images=9),
    "Flux2KleinPipeline": PipelineKind("reference", most_images=9, distilled_steps=4),
    "Flux2KleinKVPipeline": PipelineKind("reference", most_images=9),
    "FluxKontextPipeline": PipelineKind("reference"),
    "QwenImageEditPipeline": _QWEN_EDIT,
    "QwenImageEditPlusPipeline": replace(_QWEN_EDIT, most_images=3, mark="Picture {}"),
    "QwenImage21Pipeline": PipelineKind(
        "reference", guidance="true_cfg_scale", most_images=10, mark="<image{}>"
    ),
    "LongCatImageEditPipeline": PipelineKind("reference", needs_source=True),
    "BriaFibo2Pipeline": PipelineKind("reference", mask="mask"),
    "FluxFillPipeline": PipelineKind("reference", needs_source=True, mask="mask_image", needs_mask=True),
    "StableDiffusionPipeline": PipelineKind("img2img"),
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


class PipelineOptions(Value):
    """Options of `diffusers:FOLDER`.

    Attributes:
        steps: Sampling steps.
        guidance: Guidance scale.
        size: "WIDTHxHEIGHT" in pixels. Default: the source image's size, or the pipeline's own without one.
        strength: How much image-to-image repaints the source image, above 0 to 1.
        negative: Negative prompt.
        device: Device of the model.
        dtype: Precision of the model.
        download: Whether a hub id may be downloaded.
        edit: Edit mode, overriding the one of the class.
        lora: Path of a LoRA in safetensors.
        lora_scale: Strength of the LoRA, -10 to 10.
        lora_folder: Folder of the LoRAs that steps name.
        mask: Image or its path. White where an edit may change the source image.
        mask_later: Whether each request has its own mask.

    Raises:
        SettingsError: A value is out of range.
    """

    steps: int | None = Field(default=None, ge=1, le=1000)
    guidance: float | None = None
    size: ImageSize | None = None
    strength: float = Field(default=0.6, gt=0.0, le=1.0)
    negative: str | None = None
    device: str = "auto"
    dtype: Dtype = "auto"
    download: bool = False
    edit: EditChoice = "auto"
    lora: str | None = None
    lora_scale: float = Field(default=1.0, ge=-10.0, le=10.0)
    lora_folder: str | None = None
    mask: str | Picture | None = None
    mask_later: bool = False

    @property
    def sides(self) -> tuple[int, int] | None:
        """Width and height of `size` in pixels."""
        return sides_of(self.size) if self.size else None

    def check_with(self, pair: PipelinePair) -> None:
        """Check that these pipelines support all given options.

        Raises:
            SettingsError: They would ignore an option.
        """
        for pipeline in (pair.draw, pair.edit):
            if pipeline is None:
                continue
            accepted, name = arguments_of(pipeline), type(pipeline).__name__
            if self.guidance is not None and pair.kind.guidance not in accepted:
                raise SettingsError(f"{name} does not support guidance.", "Omit guidance.")
            if self.negative is not None and not pair.takes_negative(pipeline):
                raise SettingsError(f"{name} does not use a negative prompt.", "Omit negative.")
        edits = type(pair.edit).__name__
        if self.size is not None and pair.kind.edit == "reference" and "width" not in arguments_of(pair.edit):
            raise SettingsError(f"{edits} chooses the size itself.", "Omit size.")
        if self.mask is not None and pair.kind.mask is None:
            raise SettingsError(f"{edits} does not support masks.", "Omit mask.")
        if self.mask is None and not self.mask_later and pair.kind.needs_mask:
            raise SettingsError(
                f"{edits} needs a mask: it repaints a part of an image.",
                "Give a mask that is white where the image may change.",
            )
        if pair.kind.edit == "img2img":
            check_strength(self.steps, self.strength)


def check_strength(steps: int | None, strength: float) -> None:
    """Check that image-to-image has at least one sampling step. `steps` None is unknown and passes.

    Raises:
        SettingsError: It has none.
    """
    if steps is not None and int(steps * strength) < 1:
        raise SettingsError(
            f"{steps} steps at strength {strength} leave no sampling step for an edit.",
            "Increase steps or strength.",
        )
