"""What a person sets of a diffusers pipeline, and what of it is refused before anything is loaded or drawn.

Decision: an option that the pipeline's class would ignore is an error, because an ignored option is a silent
one.
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
    """Options of `diffusers:FOLDER`. Raises SettingsError for a value out of its range.

    `size` is "WxH" in pixels (default: the source's, the pipeline's own without one), `strength` 0..1 is how
    much of the source image-to-image repaints, `negative` the negative prompt, `edit` overrides how the class
    edits, `encoding_cache` what is cached of encodings. `lora` is a safetensors file laid over the weights
    as strongly as `lora_scale` (-10 to 10) says, `mask` an image or its file, white where an edit may change
    its source; `mask_later`: each draw brings its own.
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
    mask: str | Picture | None = None
    mask_later: bool = False

    # Errors of ours pass through pydantic unchanged.
    @field_validator("size")
    @classmethod
    def _check_size(cls, size: str | None) -> str | None:
        sides_of(size)
        return size

    @field_validator("strength")
    @classmethod
    def _check_strength(cls, strength: float) -> float:
        if not 0.0 < strength <= 1.0:
            raise SettingsError(f"strength must be above 0 and at most 1, but is {strength}.")
        return strength

    @field_validator("lora_scale")
    @classmethod
    def _check_lora_scale(cls, scale: float) -> float:
        if not -10.0 <= scale <= 10.0:
            raise SettingsError(f"lora_scale must be -10 to 10, but is {scale}.")
        return scale

    @field_validator("steps")
    @classmethod
    def _check_steps(cls, steps: int | None) -> int | None:
        if steps is not None and not 1 <= steps <= 1000:
            raise SettingsError(f"steps must be 1 to 1000, but is {steps}.")
        return steps

    @field_validator("dtype")
    @classmethod
    def _check_dtype(cls, dtype: str) -> str:
        if dtype not in DTYPES:
            raise SettingsError(f"There is no dtype {dtype!r}.", f"Known: {', '.join(DTYPES)}.")
        return dtype

    @field_validator("edit", mode="before")
    @classmethod
    def _check_edit(cls, edit: object) -> object:
        if edit not in get_args(EditMode):
            known = ", ".join(get_args(EditMode))
            raise SettingsError(f"There is no way of editing {edit!r}.", f"Known: {known}.")
        return edit

    @property
    def sides(self) -> tuple[int, int] | None:
        """Width and height of `size`."""
        return sides_of(self.size)

    def check_with(self, pair: PipelinePair) -> None:
        """Raise SettingsError for an option that these pipelines would ignore."""
        for pipeline in (pair.draw, pair.edit):
            if pipeline is None:
                continue
            accepted, name = arguments_of(pipeline), type(pipeline).__name__
            if self.guidance is not None and pair.kind.guidance not in accepted:
                raise SettingsError(f"{name} takes no guidance.", "Leave out guidance.")
            if self.negative is not None and not pair.takes_negative(pipeline):
                raise SettingsError(f"{name} makes no use of a negative prompt.", "Leave out negative.")
        edits = type(pair.edit).__name__
        if self.size is not None and pair.kind.edit == "reference" and "width" not in arguments_of(pair.edit):
            raise SettingsError(f"{edits} chooses the size by itself.", "Leave out size.")
        if self.mask is not None and pair.kind.mask is None:
            raise SettingsError(f"{edits} takes no mask.", "Leave out mask.")
        if self.mask is None and not self.mask_later and pair.kind.needs_mask:
            raise SettingsError(
                f"{edits} repaints a part of an image.",
                "Give a mask that is white there.",
            )
        if pair.kind.edit == "img2img":
            check_strength(self.steps, self.strength)


def check_strength(steps: int | None, strength: float) -> None:
    """Raise SettingsError where image to image would have no sampling step; `steps` None is not known."""
    if steps is not None and int(steps * strength) < 1:
        raise SettingsError(
            f"{steps} steps at strength {strength} leave no step for editing.", "Raise steps or strength."
        )


def read_options(given: dict[str, Any]) -> PipelineOptions:
    """The options with these values; raises SettingsError that names the wrong one."""
    try:
        return PipelineOptions(**given)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(map(str, fault["loc"]))
        value = str(fault["input"])[:100]
        raise SettingsError(f"Generator 'diffusers', option {name}={value}: {fault['msg']}.") from error


def sides_of(size: str | None) -> tuple[int, int] | None:
    """Width and height of "WxH"; raises SettingsError."""
    if size is None:
        return None
    match = SIZE.match(size)
    if not match or not all(MIN_SIDE <= int(side) <= MAX_SIDE for side in match.groups()):
        raise SettingsError(
            f"size {size!r} is not WIDTHxHEIGHT with sides of {MIN_SIDE} to {MAX_SIDE} pixels."
        )
    return int(match[1]), int(match[2])
