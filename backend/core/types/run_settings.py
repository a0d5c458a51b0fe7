"""Settings of a run and of single steps.

`DrawSettings.beside` (images that the model is shown) is not part of a plan. It follows from the cast and the
source of a step and from the images generated before (loop/policy.py).
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from ..pictures import Picture
from .values import (
    DIRECT,
    Several,
    SparseValue,
    StepImage,
    StepLora,
    Text,
    Value,
    bounded_identity,
)

MAX_STEP_IMAGES = 16
"""Maximum number of images shown to a model at once, including the one it edits."""
MIN_SIDE, MAX_SIDE = 16, 8192
"""Bounds of the sides of an image in pixels."""
SIZE = re.compile(r"([0-9]{1,5})x([0-9]{1,5})", re.IGNORECASE)
STRONGEST_LORA = 100.0
"""Largest absolute strength of a LoRA, as in ComfyUI's own loader."""


def sides_of(size: str, least: int = MIN_SIDE) -> tuple[int, int]:
    """Return width and height of a "WIDTHxHEIGHT" text.

    Raises:
        ValueError: The text is invalid, or a side is less than `least` or too large.
    """
    match = SIZE.fullmatch(size)
    if not match or not all(least <= int(side) <= MAX_SIDE for side in match.groups()):
        raise ValueError(
            f"it must be WIDTHxHEIGHT with sides of {least} to {MAX_SIDE} pixels, such as 1024x768"
        )
    return int(match[1]), int(match[2])


def _checked(size: str, least: int = MIN_SIDE) -> str:
    sides_of(size, least)
    return size


ImageSize = Annotated[str, AfterValidator(_checked)]
AnySize = Annotated[str, AfterValidator(partial(_checked, least=1))]
"""Size for a service, which decides itself how small an image may be."""


class StepSettings(Value):
    """Settings of one step that override those of the run and the generator. None means no override.

    Attributes:
        source: Source image: the number of an earlier step, or one of the names. "text" generates from the
            prompt alone. "all" edits the image of the step before and shows the model the other earlier
            images too.
        seed: Seed of the step's first attempt.
        tries: Maximum number of attempts.
        denoise: Denoising strength, 0..1.
        negative: Negative prompt.
        mask: Area of the source image that the step may change.
        reference: Image shown to the model next to the source image.
        size: Width and height of the image as WIDTHxHEIGHT.
        lora: LoRA that is applied in this step only, in addition to those of the generator.
        lora_strength: Its strength. Default: 1.
    """

    source: Literal["previous", "first", "anchor", "text", "all"] | Annotated[int, Field(ge=1)] | None = None
    seed: int | None = Field(
        default=None,
        ge=0,
        le=2**48,
        description="Seed of the first attempt; later attempts derive theirs from it.",
    )
    tries: int | None = Field(default=None, ge=1, le=100, description="Maximum attempts; 1 is not judged.")
    denoise: float | None = Field(default=None, gt=0.0, le=1.0)
    negative: Text | None = None
    mask: StepImage | None = None
    reference: StepImage | None = None
    size: ImageSize | None = Field(
        default=None, description=f"WIDTHxHEIGHT in pixels, sides of {MIN_SIDE} to {MAX_SIDE}."
    )
    lora: StepLora | None = Field(
        default=None,
        description="LoRA of this step only: a .safetensors file in the generator's LoRA folder.",
    )
    lora_strength: float | None = Field(
        default=None,
        ge=-STRONGEST_LORA,
        le=STRONGEST_LORA,
        description="Strength of the step's LoRA. Empty: 1, the strength of the training.",
    )

    @model_validator(mode="after")
    def _has_lora(self) -> StepSettings:
        if self.lora_strength is not None and self.lora is None:
            raise ValueError("lora_strength is the strength of a lora, but the step does not have one")
        return self

    @model_serializer(mode="wrap")
    def _without_empty(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: one for name, one in fields(self).items() if one is not None}

    @property
    def sides(self) -> tuple[int, int] | None:
        """Width and height of `size` in pixels."""
        return sides_of(self.size) if self.size else None

    @property
    def strength(self) -> float:
        """Strength of the LoRA."""
        return 1.0 if self.lora_strength is None else self.lora_strength

    @property
    def images(self) -> dict[str, StepImage]:
        """The settings that are images, by field name."""
        given = {"mask": self.mask, "reference": self.reference}
        return {name: one for name, one in given.items() if one is not None}

    @property
    def as_written(self) -> dict[str, Any]:
        """The settings as a user writes them: images and the LoRA by their file names."""
        lora = {"lora": self.lora.name} if self.lora else {}
        return self.model_dump() | {name: image.name for name, image in self.images.items()} | lora

    @property
    def sentence(self) -> str:
        """The settings as one line, such as "seed 7, size 64x64"; empty without any."""
        return ", ".join(f"{name} {value}" for name, value in self.as_written.items())

    @property
    def of_draw(self) -> dict[str, Any]:
        """The settings that a generator has to support. Files are represented by their digests."""
        given: dict[str, Any] = {"denoise": self.denoise, "negative": self.negative, "size": self.size}
        given["lora"] = [self.lora.digest, self.strength] if self.lora else None
        given |= {name: one.picture and one.picture.digest for name, one in self.images.items()}
        return {name: one for name, one in given.items() if one is not None}


class CastShown(SparseValue):
    """What an image model is told about the cast of a step.

    Attributes:
        text: Traits, head count and facts, added to the prompt.
        names: Members that the first images of `beside` show, in their order.
    """

    omitted = ("text", "names")

    text: Text = ""
    names: Several[str] = ()


class DrawSettings(StepSettings):
    """The settings with which the loop generates a step. The loop sets these, and no plan contains them.

    Attributes:
        beside: Images of the cast and earlier images shown to the model next to the source image, in order.
        cast: What the model is told about the cast. `None` without a cast.
    """

    beside: Several[Picture] = Field(default=(), max_length=MAX_STEP_IMAGES - 1)
    cast: CastShown | None = None

    @property
    def of_draw(self) -> dict[str, Any]:
        """Same as in `StepSettings`, with the digests of `beside` and the cast."""
        beside = {"beside": [one.digest for one in self.beside]} if self.beside else {}
        return super().of_draw | beside | ({"cast": self.cast.model_dump()} if self.cast else {})


def shown_beside(settings: StepSettings) -> tuple[Picture, ...]:
    """Return the images shown next to the source image: earlier images, then the step's reference."""
    beside = settings.beside if isinstance(settings, DrawSettings) else ()
    reference = settings.reference.picture if settings.reference else None
    return (*beside, *((reference,) if reference else ()))


def step_identity(identity: str, settings: StepSettings) -> str:
    """Return the identity of a generator combined with a step's own settings, if it has any."""
    given = settings.of_draw
    return bounded_identity(f"{identity} step={json.dumps(given, sort_keys=True)}") if given else identity


MAX_ATTEMPTS = 10_000
MAX_BATCH = 16
"""Maximum number of images generated together."""

SeedRule = Literal["every attempt", "every step", "1000 per step"]
Pause = Literal["never", "after the plan", "at rejected steps", "every step"]
UnusedSetting = Literal["accept_at", "seed", "constrained_decoding", "cast_images", "checklist"]
"""A setting without effect in a run.

`accept_at`: the critic reports no probabilities. `seed`: the image service does not accept a seed.
`constrained_decoding`: an agent's backend cannot constrain its replies. `cast_images`: the image model
accepts no reference images. `checklist`: the critic cannot answer single items.
"""


class RunSettings(SparseValue):
    """Settings of a run.

    A field is defined here once: default, range, description, and whether it is one of those that people set
    often (`DIRECT`). The command line, the web app and the reference read it.
    """

    past_fields = frozenset({"draw_ahead"})
    omitted = ("max_draws", "most_images", "derive_checklist", "pause")

    max_attempts: int = Field(
        default=5,
        ge=1,
        le=100,
        description="Maximum attempts per step, including the first. With 1, no critic is used.",
        json_schema_extra=DIRECT,
    )
    accept_at: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Accept an image from this success probability on, in 0..1. Empty, or 0 at a node: the "
        "critic decides, by its own strictness if set, else by its yes/no verdict.",
    )
    keep: Literal["best", "last"] = Field(
        default="best",
        description=(
            "Attempt to keep if none is accepted: the one with the highest success probability, or the last."
        ),
    )
    source: Literal["previous", "first", "anchor", "all"] = Field(
        default="previous",
        description=(
            "Image that each step edits. previous: that of the step before. first: the first generated "
            "image. anchor: the first image of the request. all: like previous, and the model also sees the "
            "request's other images and the earlier ones, if it takes several."
        ),
    )
    most_images: int | None = Field(
        default=None,
        ge=1,
        le=MAX_STEP_IMAGES,
        description="With source all or a cast: maximum number of images shown to the model, including the "
        "source image. Empty: as many as the model accepts.",
    )
    seed: int = Field(
        default=0,
        ge=0,
        le=2**48,
        description="Base seed; every step and attempt derives its own seed from it.",
        json_schema_extra=DIRECT,
    )
    seed_rule: SeedRule = Field(
        default="every attempt",
        description="A new seed for every attempt, or one seed per step, so that only the prompt changes. "
        "1000 per step: seed + 0, seed + 1000, seed + 2000 and so on, as in the released code.",
    )
    on_failure: Literal["keep", "stop"] = Field(
        default="keep",
        description="If no attempt is accepted: keep the best image and continue, or stop the run.",
    )
    judge_last: bool = Field(
        default=True,
        description=(
            "Also judge the last allowed attempt. Needed to keep the best attempt and to show its verdict."
        ),
    )
    candidates: int = Field(
        default=1,
        ge=1,
        le=MAX_BATCH,
        description="Images generated together, each with its own seed. The one with the highest success "
        "probability is used. Each counts as one attempt.",
    )
    derive_checklist: bool = Field(
        default=False,
        description="Check steps without a checklist for what their prompt and cast say: numbers, quoted "
        "texts, traits and facts. Each item is one short question to the critic.",
    )
    time_budget: float | None = Field(
        default=None,
        gt=0.0,
        description="Time limit of the whole run in seconds. No attempt starts after it. Run again, it "
        "continues.",
    )
    max_draws: int | None = Field(
        default=None,
        ge=1,
        le=MAX_ATTEMPTS,
        description="Maximum number of images generated in the whole run. The run ends there.",
    )
    pause: Pause = Field(
        default="never",
        description="When to end and wait for a decision: approve, redraw, use another attempt or skip the "
        "step. Run again, it continues. every step: after the planner's plan and after each image.",
        json_schema_extra=DIRECT,
    )

    @field_validator("seed_rule", mode="before")
    @classmethod
    def _read_former(cls, value: object) -> object:
        """Read the value that files and workflows up to 0.3.0 have."""
        return "every attempt" if value == "every try" else value
