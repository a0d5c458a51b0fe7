"""One attempt at a step: its image, the verdict on it, and its scores."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from ..checklist import CheckedItems
from ..pictures import Picture
from ..values import Several, Text, Value, written_without
from .run_settings import MAX_BATCH
from .step_settings import MAX_STEP_IMAGES, CastShown


class Verdict(Value):
    """The critic's verdict on one image. `success` is None if the critic's reply could not be read.

    None never counts as accepted. An empty `refined_prompt` keeps the prompt. `probability` is P(success),
    0..1, from the logits at the verdict, or None if the backend does not report it. `items` are the answers
    to the step's checklist; `success` is False if one of them failed, and None instead of True if one has no
    answer. `forced`: the critic's own reply had no verdict, which only a second reply, constrained to the
    grammar of verdicts, had.
    """

    success: bool | None
    refined_prompt: Text = ""
    reasoning: Text = ""
    probability: float | None = Field(default=None, ge=0.0, le=1.0)
    items: CheckedItems = ()
    forced: bool = False

    @model_serializer(mode="wrap")
    def _without_items(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit empty fields that were added later, so that earlier versions can read the verdict."""
        return written_without(fields(self), self, ("items", "forced"))


class Score(Value):
    """Scores of an image for the step's original prompt (`docs/reference/file-formats.md`), 0..10 each."""

    semantics: float = Field(ge=0.0, le=10.0)
    quality: float = Field(ge=0.0, le=10.0)

    @property
    def overall(self) -> float:
        """Geometric mean of both scores, 0..10."""
        return (self.semantics * self.quality) ** 0.5


class Fault(Value):
    """A failure stored as a value: the part that failed ("generator", "critic", "scorer") and its message."""

    where: Text
    message: Text


RequestedBy = Literal["user", "story check"]


class Redraw(Value):
    """Marks an attempt that was requested, with its number among the requests at the step."""

    by: RequestedBy = "user"
    number: int = Field(
        ge=1, description="Number among the attempts that were requested at this step, from 1."
    )


class Enhancement(Value):
    """What a prompt enhancer made of the prompt of an attempt.

    `prompt` is what the image model was given. If `warning` is not empty, it is the attempt's own prompt,
    because the enhancer's replies could not be used.
    """

    prompt: Text
    warning: Text = ""


class Attempt(Value):
    """One attempt at a step. `image` is None if it failed, `verdict` is None if no critic was used."""

    prompt: Text
    seed: int
    source: Picture | None = None
    beside: Several[Picture] = Field(
        default=(),
        max_length=MAX_STEP_IMAGES - 1,
        description="Images shown to the model next to the source image.",
    )
    cast: CastShown | None = Field(default=None, description="What the model was told about the cast.")
    image: Picture | None = None
    verdict: Verdict | None = None
    score: Score | None = None
    error: Fault | None = None
    seconds: float = Field(default=0.0, ge=0.0, description="Wall-clock seconds of generating and judging.")
    place: int = Field(
        default=0, ge=0, lt=MAX_BATCH, description="Index in the batch of images generated together."
    )
    redraw: Redraw | None = Field(default=None, description="Set if the user requested this attempt.")
    enhancement: Enhancement | None = Field(
        default=None, description="Prompt that the image model was given, if an enhancer rewrote it."
    )

    @model_serializer(mode="wrap")
    def _without_defaults(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit default values, as earlier versions wrote attempts, so that they can read them."""
        return written_without(fields(self), self, ("place", "redraw", "beside", "enhancement", "cast"))
