"""The user's options of a diffusers pipeline, and the checks made before anything is loaded or generated.

An option that the pipeline's class would ignore is an error, so that no option is ignored silently.
"""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

from pydantic import ValidationError, field_validator

from ...errors import SettingsError
from ...pictures import Picture
from ...types import Value
from ..encoding_cache import EncodingCacheSettings
from .kinds import PipelinePair, arguments_of

SIZE = re.compile(r"^(\d{1,5})x(\d{1,5})$")
MIN_SIDE, MAX_SIDE = 16, 8192
DTYPES = ("auto", "float32", "bfloat16", "float16")
EditMode = Literal["auto", "reference", "img2img"]


class PipelineOptions(Value):
    """Options of `diffusers:FOLDER`.

    Attributes:
        steps: Sampling steps.
        guidance: Guidance scale.
        size: "WIDTHxHEIGHT" in pixels. Default: the source image's size, or the pipeline's own without one.
        strength: How much image-to-image repaints the source image, 0..1.
        negative: Negative prompt.
        device: Device of the model.
        dtype: One of DTYPES.
        download: Whether a hub id may be downloaded.
        edit: Edit mode, overriding the one of the class.
        encoding_cache: Cache of prompt embeddings and latents.
        lora: Path of a LoRA in safetensors.
        lora_scale: Strength of the LoRA, -10 to 10.
        lora_folder: Folder of the LoRAs that steps name.
        mask: Image or its path. White where an edit may change the source image.
        mask_later: Whether each request has its own mask.

    Raises:
        SettingsError: A value is out of range.
    """

    steps: int | None = None
    guidance: float | None = None
    size: str | None = None
    strength: float = 0.6
    negative: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    download: bool = False
    edit: EditMode = "auto"
    encoding_cache: EncodingCacheSettings = EncodingCacheSettings()
    lora: str | None = None
    lora_scale: float = 1.0
    lora_folder: str | None = None
    mask: str | Picture | None = None
    mask_later: bool = False

    # pydantic passes errors of this package through unchanged.
    @field_validator("size")
    @classmethod
    def _check_size(cls, size: str | None) -> str | None:
        sides_of(size)
        return size

    @field_validator("strength")
    @classmethod
    def _check_strength(cls, strength: float) -> float:
        if not 0.0 < strength <= 1.0:
            raise SettingsError(f"strength must be above 0 and at most 1, not {strength}.")
        return strength

    @field_validator("lora_scale")
    @classmethod
    def _check_lora_scale(cls, scale: float) -> float:
        if not -10.0 <= scale <= 10.0:
            raise SettingsError(f"lora_scale must be -10 to 10, not {scale}.")
        return scale

    @field_validator("steps")
    @classmethod
    def _check_steps(cls, steps: int | None) -> int | None:
        if steps is not None and not 1 <= steps <= 1000:
            raise SettingsError(f"steps must be 1 to 1000, not {steps}.")
        return steps

    @field_validator("dtype")
    @classmethod
    def _check_dtype(cls, dtype: str) -> str:
        if dtype not in DTYPES:
            raise SettingsError(f"Unknown dtype {dtype!r}.", f"Use one of {', '.join(DTYPES)}.")
        return dtype

    @field_validator("edit", mode="before")
    @classmethod
    def _check_edit(cls, edit: object) -> object:
        if edit not in get_args(EditMode):
            known = ", ".join(get_args(EditMode))
            raise SettingsError(f"Unknown edit mode {edit!r}.", f"Use one of {known}.")
        return edit

    @property
    def sides(self) -> tuple[int, int] | None:
        """Width and height of `size` in pixels."""
        return sides_of(self.size)

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


def read_options(given: dict[str, Any]) -> PipelineOptions:
    """Return the options with these values.

    Raises:
        SettingsError: A value is invalid; the message names the option.
    """
    try:
        return PipelineOptions(**given)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(map(str, fault["loc"]))
        value = str(fault["input"])[:100]
        raise SettingsError(f"Generator 'diffusers', option {name}={value}: {fault['msg']}.") from error


def sides_of(size: str | None) -> tuple[int, int] | None:
    """Return width and height of a "WIDTHxHEIGHT" text.

    Raises:
        SettingsError: The text or a side is invalid.
    """
    if size is None:
        return None
    match = SIZE.match(size)
    if not match or not all(MIN_SIDE <= int(side) <= MAX_SIDE for side in match.groups()):
        raise SettingsError(
            f"Invalid size {size!r}: expected WIDTHxHEIGHT with sides of {MIN_SIDE} to {MAX_SIDE} pixels."
        )
    return int(match[1]), int(match[2])
