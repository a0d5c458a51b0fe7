"""What flows through the pipeline, from the request to the finished trajectory.

Decision: these models are the file format too. The journal writes them, the exporters read them, the nodes
pass them along the wires; nothing else describes a run. All are frozen: an edit makes a new value, and equal
content is equal.
"""

from __future__ import annotations

import itertools
from enum import Enum
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from .pictures import Picture
from .values import (
    MAX_ATTEMPTS,
    MAX_BATCH,
    MAX_STEP_IMAGES,
    MAX_TEXT,
    DrawSettings,
    Item,
    RunSettings,
    Several,
    StepImage,
    StepSettings,
    Text,
    Value,
    written_without,
)

__all__ = [
    "FORMAT_VERSION",
    "MAX_ATTEMPTS",
    "MAX_BATCH",
    "MAX_IMAGES",
    "MAX_STEPS",
    "MAX_STEP_IMAGES",
    "MAX_STYLE",
    "MAX_TEXT",
    "Attempt",
    "DrawSettings",
    "Fault",
    "Identities",
    "Item",
    "Plan",
    "Redraw",
    "Request",
    "RunSettings",
    "Score",
    "Several",
    "Step",
    "StepImage",
    "StepResult",
    "StepSettings",
    "StopReason",
    "Text",
    "Trajectory",
    "UnusedSetting",
    "Value",
    "Verdict",
    "in_style",
]

FORMAT_VERSION = 1
MAX_STEPS = 100
MAX_STYLE = 2_000
MAX_IMAGES = 1_000


class Request(Value):
    """What the user asks for: a text and the images (0..n) it refers to, in the order of its `<image>`
    marks."""

    text: Text
    images: Several[Picture] = Field(default=(), max_length=MAX_IMAGES)


class Step(Value):
    """One step of a plan. `prompt` None is a text-only step: nothing is drawn, `auxiliary_text` is its
    content."""

    number: int = Field(ge=1)
    name: Text = ""
    instruction: Text | None = None
    prompt: Text | None = None
    auxiliary_text: Text | None = None
    settings: StepSettings = StepSettings()

    @model_serializer(mode="wrap")
    def _without_settings(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A step without any is written as it always was, so that earlier versions read it."""
        written = fields(self)
        if self.settings == StepSettings():
            written.pop("settings", None)
        return written

    @model_validator(mode="after")
    def _has_content(self) -> Step:
        if not self.prompt and not self.auxiliary_text:
            raise ValueError(f"step {self.number} has neither a prompt to draw nor an auxiliary text")
        return self


SENTENCE_ENDS = ".,;:!?。，；：！？、"


def in_style(prompt: str, style: str) -> str:
    """The prompt with a plan's style sentence before it, unless there is none or it begins with that."""
    sentence = style.strip()
    if not sentence or prompt.startswith(sentence):
        return prompt
    return f"{sentence}{'' if sentence[-1] in SENTENCE_ENDS else '.'} {prompt}"


class Plan(Value):
    """All steps, written before anything is drawn; step numbers rise but need not start at 1 (a
    continuation).

    `style` is a sentence that stands before every step's prompt as it is drawn and judged. `warning` says
    where the plan is not as it was asked for.
    """

    steps: Several[Step] = Field(min_length=1, max_length=MAX_STEPS)
    reasoning: Text = ""
    style: str = Field(default="", max_length=MAX_STYLE)
    warning: Text = ""

    @model_serializer(mode="wrap")
    def _without_empty(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A plan without them is written as it always was, so that earlier versions read it."""
        return written_without(fields(self), self, ("style", "warning"))

    @model_validator(mode="after")
    def _numbers_rise(self) -> Plan:
        numbers = [step.number for step in self.steps]
        if any(later <= earlier for earlier, later in itertools.pairwise(numbers)):
            raise ValueError(f"step numbers must rise, but are {numbers}")
        if any(len(step.prompt or "") > MAX_TEXT for step in self.drawn_steps):
            raise ValueError(f"style and prompt together must have at most {MAX_TEXT} characters")
        return self

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures that steps' settings name, each once."""
        images = [image for step in self.steps for image in step.settings.images.values()]
        return tuple({one.picture.digest: one.picture for one in images if one.picture}.values())

    @property
    def drawn_steps(self) -> tuple[Step, ...]:
        """The steps as they are drawn and judged: the style before every prompt."""
        return tuple(
            step.model_copy(update={"prompt": in_style(step.prompt, self.style)}) if step.prompt else step
            for step in self.steps
        )


class Verdict(Value):
    """The critic's word on one image. `success` None: the critic could not be understood, never counted as
    accepted.

    `refined_prompt` is what to draw with next; empty means "keep the prompt". `probability` is P(success)
    from the logits at the verdict, 0..1, None where the backend cannot tell.
    """

    success: bool | None
    refined_prompt: Text = ""
    reasoning: Text = ""
    probability: float | None = Field(default=None, ge=0.0, le=1.0)


class Score(Value):
    """Scores of an image against the step's original prompt, each 0..10 (VIEScore-style, FORMATS:
    rewards)."""

    semantics: float = Field(ge=0.0, le=10.0)
    quality: float = Field(ge=0.0, le=10.0)

    @property
    def overall(self) -> float:
        """Geometric mean of both, 0..10."""
        return (self.semantics * self.quality) ** 0.5


class Fault(Value):
    """A failure kept as a value: which part failed ("generator", "critic", "scorer") and what it said."""

    where: Text
    message: Text


class Redraw(Value):
    """Marks an attempt that somebody asked for: who, and which of the step's redraws it is."""

    by: Literal["user"] = "user"
    number: int = Field(ge=1, description="Number of the redraw among those asked for at this step, from 1.")


class Attempt(Value):
    """One draw of a step and its judgement. `image` is None if drawing failed, `verdict` None if no critic
    was asked."""

    prompt: Text
    seed: int
    source: Picture | None = None
    beside: Several[Picture] = Field(
        default=(), max_length=MAX_STEP_IMAGES - 1, description="Shown to the model beside the source."
    )
    image: Picture | None = None
    verdict: Verdict | None = None
    score: Score | None = None
    error: Fault | None = None
    seconds: float = Field(default=0.0, ge=0.0, description="Wall seconds of drawing and judging together.")
    place: int = Field(
        default=0, ge=0, lt=MAX_BATCH, description="Place among the images of one draw, 0 for the first."
    )
    redraw: Redraw | None = Field(default=None, description="Set if a person asked for this attempt.")

    @model_serializer(mode="wrap")
    def _without_defaults(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The loop's own draw of one image is written as it always was, so that earlier versions read it."""
        return written_without(fields(self), self, ("place", "redraw", "beside"))


class StopReason(str, Enum):
    """Why no further attempt was made at a step; shown wherever a person looks."""

    accepted = "accepted"
    """The critic accepted the chosen attempt."""
    attempts_used_up = "tries used up"
    """No attempt was accepted; the chosen one is the best (or last) of them."""
    picked = "picked"
    """A person picked the chosen attempt, whatever the critic said of it."""
    redrawn = "redrawn"
    """A person asked for the chosen attempt, and the critic did not accept it."""
    unjudged = "unjudged"
    """Drawn without a critic (one attempt asked for, or no critic given)."""
    text_only = "text only"
    """A step of text: nothing to draw."""
    budget = "budget"
    """The time budget of the run was used up."""
    cancelled = "cancelled"
    """The user stopped the run."""
    error = "error"
    """Drawing failed and no attempt has an image."""


class StepResult(Value):
    """A step with all its attempts; `chosen` indexes `attempts` (None: no image, see `stop_reason`)."""

    step: Step
    attempts: Several[Attempt] = Field(default=(), max_length=MAX_ATTEMPTS)
    chosen: int | None = None
    stop_reason: StopReason

    @model_validator(mode="after")
    def _chosen_exists(self) -> StepResult:
        if self.chosen is not None and (
            not 0 <= self.chosen < len(self.attempts) or self.attempts[self.chosen].image is None
        ):
            raise ValueError(f"step {self.step.number}: chosen attempt {self.chosen} has no image")
        return self

    @property
    def image(self) -> Picture | None:
        """The chosen attempt's image."""
        return None if self.chosen is None else self.attempts[self.chosen].image


class Identities(Value):
    """Who made a run: each string changes whenever its maker could answer or draw differently."""

    planner: Text = ""
    generator: Text = ""
    critic: Text = ""
    prompt_set: Text = Field(default="", description="Digest of the planner's and the critic's prompt sets.")


UnusedSetting = Literal["accept_at", "seed", "constrained_decoding"]
"""A setting that can be without effect: the critic reports no probabilities, the image service takes no seed,
an agent's backend cannot constrain its replies."""


class Trajectory(Value):
    """A whole run: request, plan, every attempt of every step, and who made it with which settings; `unused`
    are those that had no effect."""

    version: int = FORMAT_VERSION
    request: Request
    plan: Plan
    results: Several[StepResult] = Field(default=(), max_length=MAX_STEPS)
    settings: RunSettings = RunSettings()
    identities: Identities = Identities()
    unused: Several[UnusedSetting] = ()

    @model_serializer(mode="wrap")
    def _without_empty(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A run whose settings all had an effect is written as it always was."""
        return written_without(fields(self), self, ("unused",))
