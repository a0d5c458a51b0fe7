"""The values of a run, from the request to the finished trajectory.

These models are also the file format: the journal writes them, the exporters read them, the nodes pass them
along. All are frozen, so an edit makes a new value, and values with equal content are equal.
"""

from __future__ import annotations

import itertools
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from .cast import Cast, CastMember, Facts, Present, check_cast, pictures_of
from .checklist import CheckedItem, CheckedItems, Checklist, ChecklistItem
from .clips.clip import Clip
from .pictures import Picture
from .values import (
    MAX_ATTEMPTS,
    MAX_BATCH,
    MAX_STEP_IMAGES,
    MAX_TEXT,
    CastShown,
    DrawSettings,
    Item,
    RunSettings,
    Several,
    StepImage,
    StepLora,
    StepSettings,
    Text,
    UnusedSetting,
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
    "CastMember",
    "CastShown",
    "CheckedItem",
    "ChecklistItem",
    "Clip",
    "DrawSettings",
    "Enhancement",
    "Fault",
    "Identities",
    "Item",
    "Plan",
    "Redraw",
    "Request",
    "Rewritten",
    "RunSettings",
    "Score",
    "Several",
    "Step",
    "StepImage",
    "StepLora",
    "StepResult",
    "StepSettings",
    "StopReason",
    "StoryCheck",
    "StoryFinding",
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
MAX_CHECKS = 1_000
MAX_FINDINGS = MAX_STEPS


class Request(Value):
    """The user's request: a text and the images (0..n) that its `<image>` marks refer to, in order."""

    text: Text
    images: Several[Picture] = Field(default=(), max_length=MAX_IMAGES)


class Rewritten(Value):
    """What a step was before it was rewritten, because no attempt at it was accepted.

    Attributes:
        prompt: Its prompt.
        settings: Its settings.
        draws: Generator calls that were made with them. They count for the run's `max_draws`.
    """

    prompt: Text
    settings: StepSettings = StepSettings()
    draws: int = Field(ge=0, le=MAX_ATTEMPTS)


class Step(Value):
    """One step of a plan. If `prompt` is None, the step is text-only and `auxiliary_text` is its content.

    `cast` names the members of the plan's cast that are in the step; None: the names in its prompt decide.
    `facts` state what is true after it. The critic answers each item of `checklist` with yes or no.
    `rewritten` is set if the run wrote the prompt, to generate the step from text.
    """

    number: int = Field(ge=1)
    name: Text = ""
    instruction: Text | None = None
    prompt: Text | None = None
    auxiliary_text: Text | None = None
    settings: StepSettings = StepSettings()
    cast: Present | None = None
    facts: Facts = ()
    checklist: Checklist = ()
    rewritten: Rewritten | None = None

    @model_serializer(mode="wrap")
    def _without_settings(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit empty settings and cast, as earlier versions wrote steps, so that they can read them."""
        written = written_without(fields(self), self, ("facts", "checklist", "rewritten"))
        if self.settings == StepSettings():
            written.pop("settings", None)
        if self.cast is None:
            written.pop("cast", None)
        return written

    @model_validator(mode="after")
    def _has_content(self) -> Step:
        if not self.prompt and not self.auxiliary_text:
            raise ValueError(f"step {self.number} has neither a prompt nor an auxiliary text")
        return self

    @property
    def as_planned(self) -> Step:
        """The step as it was before it was rewritten."""
        if self.rewritten is None:
            return self
        before = {"prompt": self.rewritten.prompt, "settings": self.rewritten.settings, "rewritten": None}
        return self.model_copy(update=before)

    @property
    def images(self) -> tuple[StepImage, ...]:
        """The images in its settings, also in those before it was rewritten."""
        return (*self.settings.images.values(), *self.as_planned.settings.images.values())


SENTENCE_ENDS = ".,;:!?。，；：！？、"


def in_style(prompt: str, style: str) -> str:
    """Return the prompt preceded by a plan's style sentence, unless it already begins with it."""
    sentence = style.strip()
    if not sentence or prompt.startswith(sentence):
        return prompt
    return f"{sentence}{'' if sentence[-1] in SENTENCE_ENDS else '.'} {prompt}"


class Plan(Value):
    """All steps, written before any image is generated.

    Step numbers increase, but need not start at 1 (a continuation). The sentence `style` precedes the prompt
    of every step when it is generated and judged. `warning` tells how the plan differs from the request.
    `cast` are the characters, props and places that look the same in every image.
    """

    steps: Several[Step] = Field(min_length=1, max_length=MAX_STEPS)
    reasoning: Text = ""
    style: str = Field(default="", max_length=MAX_STYLE)
    warning: Text = ""
    cast: Cast = ()

    @model_serializer(mode="wrap")
    def _without_empty(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit empty fields, as earlier versions wrote plans, so that they can read them."""
        return written_without(fields(self), self, ("style", "warning", "cast"))

    @model_validator(mode="after")
    def _numbers_rise(self) -> Plan:
        numbers = [step.number for step in self.steps]
        if any(later <= earlier for earlier, later in itertools.pairwise(numbers)):
            raise ValueError(f"step numbers must increase, but are {numbers}")
        if any(len(step.prompt or "") > MAX_TEXT for step in self.drawn_steps):
            raise ValueError(f"style and prompt together exceed {MAX_TEXT} characters")
        check_cast(self.cast, ((step.number, step.cast) for step in self.steps))
        return self

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Images of the cast and in the settings of the steps, without duplicates."""
        images = [image for step in self.steps for image in step.images]
        found = [*pictures_of(self.cast), *(one.picture for one in images if one.picture)]
        return tuple({one.digest: one for one in found}.values())

    @property
    def as_planned(self) -> Plan:
        """The plan as it was before steps were rewritten."""
        return self.model_copy(update={"steps": tuple(step.as_planned for step in self.steps)})

    @property
    def drawn_steps(self) -> tuple[Step, ...]:
        """The steps as they are generated and judged: with the style before every prompt."""
        return tuple(
            step.model_copy(update={"prompt": in_style(step.prompt, self.style)}) if step.prompt else step
            for step in self.steps
        )


class Verdict(Value):
    """The critic's verdict on one image. `success` is None if the critic's reply could not be read.

    None never counts as accepted. An empty `refined_prompt` keeps the prompt. `probability` is P(success),
    0..1, from the logits at the verdict, or None if the backend does not report it. `items` are the answers
    to the step's checklist; `success` is False if one of them failed.
    """

    success: bool | None
    refined_prompt: Text = ""
    reasoning: Text = ""
    probability: float | None = Field(default=None, ge=0.0, le=1.0)
    items: CheckedItems = ()

    @model_serializer(mode="wrap")
    def _without_items(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit empty items, as earlier versions wrote verdicts, so that they can read them."""
        return written_without(fields(self), self, ("items",))


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


class StopReason(str, Enum):
    """Why no further attempt was made at a step. The values are shown to users and stored in files."""

    accepted = "accepted"
    """The critic accepted the chosen attempt."""
    attempts_used_up = "tries used up"
    """No attempt was accepted. The chosen one is the best, or the last."""
    picked = "picked"
    """The user picked the chosen attempt, regardless of its verdict."""
    redrawn = "redrawn"
    """The user requested the chosen attempt, and the critic did not accept it."""
    unjudged = "unjudged"
    """Generated without a critic (a single attempt, or no critic given)."""
    skipped = "skipped"
    """The user skipped the step: it has no image, and later steps edit the one before it."""
    text_only = "text only"
    """A text-only step: no image is generated."""
    budget = "budget"
    """The time budget of the run was used up."""
    cancelled = "cancelled"
    """The user stopped the run."""
    error = "error"
    """The generation failed, and no attempt has an image."""


class StepResult(Value):
    """A step with all its attempts. `chosen` is an index into `attempts`, or None without an image.

    `approved`: the user picked the attempt that the run kept itself, so no other image was chosen.
    """

    step: Step
    attempts: Several[Attempt] = Field(default=(), max_length=MAX_ATTEMPTS)
    chosen: int | None = None
    stop_reason: StopReason
    approved: bool = False

    @model_serializer(mode="wrap")
    def _without_approval(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit `approved` if it is false, so that earlier versions can read the result."""
        return written_without(fields(self), self, ("approved",))

    @model_validator(mode="after")
    def _chosen_exists(self) -> StepResult:
        if self.chosen is not None and (
            not 0 <= self.chosen < len(self.attempts) or self.attempts[self.chosen].image is None
        ):
            raise ValueError(f"step {self.step.number}: chosen attempt {self.chosen} has no image")
        return self

    @property
    def image(self) -> Picture | None:
        """Image of the chosen attempt."""
        return None if self.chosen is None else self.attempts[self.chosen].image


FindingKind = Literal["identity", "state", "order", "style"]
"""What an image of a story breaks: who someone is, what is true by then, the order of events, the style."""


class StoryFinding(Value):
    """An image that does not fit its story, with one sentence that says what it must show instead."""

    step: int = Field(ge=1)
    kind: FindingKind
    problem: Annotated[Text, Field(min_length=1)]


class StoryCheck(Value):
    """One check of all images of a story.

    `key` is the digest of the checker and of what it was shown. `images` are the digests of the images by
    step number. `reopened` is the step that was generated again because of this check. If `warning` is not
    empty, the story could not be checked, for this reason.
    """

    key: Annotated[str, Field(max_length=64)]
    checker: Text
    images: dict[int, Annotated[str, Field(max_length=64)]] = Field(max_length=MAX_STEPS)
    findings: Several[StoryFinding] = Field(default=(), max_length=MAX_FINDINGS)
    reopened: int | None = None
    warning: Text = ""


class Identities(Value):
    """What made a run. Each string changes whenever its model or settings could give another result."""

    planner: Text = ""
    generator: Text = ""
    critic: Text = ""
    prompt_set: Text = Field(default="", description="Digest of the prompt sets of planner and critic.")
    scorer: Text = Field(
        default="", description="Scorer that chooses between images; empty: the critic does."
    )

    @model_serializer(mode="wrap")
    def _without_scorer(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit a missing scorer, as earlier versions wrote identities, so that they can read them."""
        return written_without(fields(self), self, ("scorer",))


class Trajectory(Value):
    """A complete run: request, plan and all attempts.

    `unused` lists settings that had no effect. `checks` are the story checks of the run, oldest first.
    `clips` lead from one image to the next (clips/pairs.py).
    """

    version: int = FORMAT_VERSION
    request: Request
    plan: Plan
    results: Several[StepResult] = Field(default=(), max_length=MAX_STEPS)
    settings: RunSettings = RunSettings()
    identities: Identities = Identities()
    unused: Several[UnusedSetting] = ()
    checks: Several[StoryCheck] = Field(default=(), max_length=MAX_CHECKS)
    clips: Several[Clip] = Field(default=(), max_length=MAX_STEPS)

    @model_serializer(mode="wrap")
    def _without_empty(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit empty fields, as earlier versions wrote trajectories."""
        return written_without(fields(self), self, ("unused", "checks", "clips"))
