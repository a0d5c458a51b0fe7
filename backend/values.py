"""What stored values are made of, and the first of them: the settings of a run, how one step is drawn where
that differs from them, and what that adds to the name of the draw's maker.

Decision: `beside` is no field of a plan. Which earlier images a step is shown follows from its source and
from what was drawn before it (loop/earlier_images.py), so a plan says `source: all`, and the loop hands the
generator the pictures. The identity stands here, too, since whoever writes a run's records anew (a copy of a
story) names their makers as the loop did.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from .pictures import Picture
from .shown_text import valid_text

MAX_TEXT = 100_000
MAX_IMAGE_NAME = 1_000
MAX_STEP_IMAGES = 16
"""Images that a model is shown at once, the one that it edits among them."""
MAX_ATTEMPTS = 10_000
MAX_BATCH = 16
"""Images that one draw may give."""

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Item = TypeVar("Item")
Several = Annotated[tuple[Item, ...], FailFast()]
"""Values in order, of which the first fault is reported: a million faults would be a gigabyte."""


class ValidTexts(BaseModel):
    """Base of models that read text from outside: makes all their texts valid before they are checked."""

    @model_validator(mode="before")
    @classmethod
    def _make_valid(cls, given: Any) -> Any:
        return {name: _valid(one) for name, one in given.items()} if isinstance(given, dict) else given


def _valid(value: Any) -> Any:
    """Make the texts of a field valid; nested models do that themselves."""
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, (list, tuple)) and any(isinstance(one, str) for one in value):
        return type(value)(_valid(one) for one in value)
    return value


class Value(ValidTexts):
    """Base of all stored values: frozen, its texts valid; an unknown field is an error and no silent loss."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def written_without(written: dict[str, Any], value: Value, names: tuple[str, ...]) -> dict[str, Any]:
    """What is written of a value, without those of these fields that are empty."""
    return {name: one for name, one in written.items() if name not in names or getattr(value, name)}


class StepImage(Value):
    """An image that a step names by its file; `picture` None until it is read (files/step_images.py). Written
    as the name alone until then, and with the picture's digest after."""

    name: str = Field(min_length=1, max_length=MAX_IMAGE_NAME)
    picture: Picture | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_serializer(mode="wrap")
    def _as_name(self, fields: SerializerFunctionWrapHandler) -> Any:
        return fields(self) if self.picture else self.name


class StepSettings(Value):
    """How one step is drawn where that differs from the run's settings and the generator's; what is None does
    not. `source` may be the number of an earlier step, "text" is drawn from text alone, and "all" edits the
    step before while the model is shown the other earlier images, too. `mask` says what of its source the
    step may change, `reference` is shown to the model beside it."""

    source: Literal["previous", "first", "anchor", "text", "all"] | Annotated[int, Field(ge=1)] | None = None
    seed: int | None = Field(
        default=None, ge=0, le=2**48, description="Of the step's first try; later tries get theirs from it."
    )
    tries: int | None = Field(default=None, ge=1, le=100, description="Draws at most; 1 is not judged.")
    denoise: float | None = Field(default=None, gt=0.0, le=1.0)
    negative: Text | None = None
    mask: StepImage | None = None
    reference: StepImage | None = None

    @model_serializer(mode="wrap")
    def _without_empty(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: one for name, one in fields(self).items() if one is not None}

    @property
    def images(self) -> dict[str, StepImage]:
        """Those that are images, by their names here."""
        given = {"mask": self.mask, "reference": self.reference}
        return {name: one for name, one in given.items() if one is not None}

    @property
    def as_written(self) -> dict[str, Any]:
        """All that are given as a person writes them: images by their files' names."""
        return self.model_dump() | {name: image.name for name, image in self.images.items()}

    @property
    def of_draw(self) -> dict[str, Any]:
        """Those that a generator has to be able to take; of images the digests of their pixels."""
        given: dict[str, Any] = {"denoise": self.denoise, "negative": self.negative}
        given |= {name: one.picture and one.picture.digest for name, one in self.images.items()}
        return {name: one for name, one in given.items() if one is not None}


class DrawSettings(StepSettings):
    """A step's settings as it is drawn: `beside` are earlier images that the model is shown beside its
    source, in order. Made by the loop, in no plan."""

    beside: Several[Picture] = Field(default=(), max_length=MAX_STEP_IMAGES - 1)

    @property
    def of_draw(self) -> dict[str, Any]:
        """As of a step's own, with the digests of those beside."""
        beside = {"beside": [one.digest for one in self.beside]} if self.beside else {}
        return super().of_draw | beside


class RunSettings(Value):
    """How a run is carried out. Field descriptions feed the command line's help and the nodes' tooltips."""

    max_attempts: int = Field(
        default=5, ge=1, le=100, description="Draws per step at most; 1 means no critic is asked."
    )
    accept_at: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Probability of success needed to accept; empty takes the critic's own word.",
    )
    keep: Literal["best", "last"] = Field(
        default="best",
        description=(
            "Which attempt a step keeps when none was accepted: the most probable success, or the last."
        ),
    )
    source: Literal["previous", "first", "anchor", "all"] = Field(
        default="previous",
        description=(
            "Image a step edits: the previous step's, the first one drawn, or the request's first image. "
            "With all, models that take several are shown the other earlier ones beside the previous."
        ),
    )
    most_images: int | None = Field(
        default=None,
        ge=2,
        le=MAX_STEP_IMAGES,
        description="With source all: images that a step's model is shown at most, the one that it edits "
        "among them; empty: as many as it takes.",
    )
    seed: int = Field(
        default=0, ge=0, le=2**48, description="Base seed; every step and attempt gets its own from it."
    )
    seed_rule: Literal["every try", "every step"] = Field(
        default="every try",
        description=(
            "A new seed for every try, or one for all tries of a step, so that only the prompt changes."
        ),
    )
    on_failure: Literal["keep", "stop"] = Field(
        default="keep",
        description="A step that was never accepted: keep its best image and go on, or stop the run there.",
    )
    judge_last: bool = Field(
        default=True,
        description=(
            "Ask the critic about the last allowed attempt too (needed for keep=best and for display)."
        ),
    )
    candidates: int = Field(
        default=1,
        ge=1,
        le=MAX_BATCH,
        description="Images drawn for each try, with a seed each, and judged together; "
        "the most probable success counts. Each is one of max_attempts.",
    )
    draw_ahead: bool = Field(
        default=False,
        description="Draw the next step's first image while the critic reads this one, "
        "and throw it away if it is refused; "
        "for a generator and a critic on two devices, or with memory and time to spare on one.",
    )
    time_budget: float | None = Field(
        default=None, gt=0.0, description="Wall seconds for the whole run; no attempt starts after that."
    )
    max_draws: int | None = Field(
        default=None,
        ge=1,
        le=MAX_ATTEMPTS,
        description="Draws at most of all steps together; a run that needs more ends there.",
    )

    @model_serializer(mode="wrap")
    def _without_empty(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without such limits they are written as they always were, so that earlier versions read them."""
        return written_without(fields(self), self, ("max_draws", "most_images"))


def shown_beside(settings: StepSettings) -> tuple[Picture, ...]:
    """The images that a model is shown beside the source, in order: earlier ones, then the step's own
    reference."""
    beside = settings.beside if isinstance(settings, DrawSettings) else ()
    reference = settings.reference.picture if settings.reference else None
    return (*beside, *((reference,) if reference else ()))


def step_identity(identity: str, settings: StepSettings) -> str:
    """The identity of a generator that draws with a step's own settings: its own where there are none."""
    given = settings.of_draw
    return bounded_identity(f"{identity} step={json.dumps(given, sort_keys=True)}") if given else identity


def bounded_identity(text: str) -> str:
    """`text` as it is up to MAX_TEXT characters, the most that a record holds; of a longer one (a huge
    negative prompt, hundreds of references) the beginning and the SHA-256 digest of the whole."""
    if len(text) <= MAX_TEXT:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:1000]}... sha256={digest}"
