"""Attempts, steps with their attempts, checks of a story, and the finished run."""

from __future__ import annotations

import hashlib
from enum import Enum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from ..pictures import DIGEST, Picture
from .checklist import CheckedItems
from .clip import Clip
from .plan import MAX_STEPS, Plan, Request, Step, in_style
from .run_settings import MAX_ATTEMPTS, MAX_BATCH, MAX_STEP_IMAGES, CastShown, RunSettings, UnusedSetting
from .values import Several, SparseValue, Text, Value


class Verdict(SparseValue):
    """The critic's verdict on one image. `success` is None if the critic's reply could not be read.

    None never counts as accepted. An empty `refined_prompt` keeps the prompt. `probability` is P(success),
    0..1, from the logits at the verdict, or None if the backend does not report it. `items` are the answers
    to the step's checklist; `success` is False if one of them failed, and None instead of True if one has no
    answer. `forced`: the critic's own reply had no verdict, which only a second reply, constrained to the
    grammar of verdicts, had.
    """

    omitted = ("items", "forced")

    success: bool | None
    refined_prompt: Text = ""
    reasoning: Text = ""
    probability: float | None = Field(default=None, ge=0.0, le=1.0)
    items: CheckedItems = ()
    forced: bool = False


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


class Spent(SparseValue):
    """What an agent needed: wall-clock seconds, and tokens: prompts that it read or had cached, replies.

    A server that does not report its tokens counts none.
    """

    omitted = ("read", "cached", "written")

    seconds: float = Field(default=0.0, ge=0.0)
    read: int = Field(default=0, ge=0)
    cached: int = Field(default=0, ge=0)
    written: int = Field(default=0, ge=0)

    def __add__(self, other: Spent) -> Spent:
        return Spent(**{name: getattr(self, name) + getattr(other, name) for name in Spent.model_fields})

    def shared(self, by: int) -> Spent:
        """Return the share of one of several questions that were answered together."""
        read, cached, written = self.read // by, self.cached // by, self.written // by
        return Spent(seconds=self.seconds / by, read=read, cached=cached, written=written)


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


class Attempt(SparseValue):
    """One attempt at a step. `image` is None if it failed, `verdict` is None if no critic was used."""

    omitted = ("place", "redraw", "beside", "enhancement", "cast", "judging", "plain_verdict")

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
    plain_verdict: Verdict | None = Field(
        default=None, description="The verdict before the answers to the checklist, if they were asked for."
    )
    score: Score | None = None
    error: Fault | None = None
    seconds: float = Field(default=0.0, ge=0.0, description="Wall-clock seconds of generating and judging.")
    judging: Spent = Field(default=Spent(), description="The part of it that the critic needed.")
    place: int = Field(
        default=0, ge=0, lt=MAX_BATCH, description="Index in the batch of images generated together."
    )
    redraw: Redraw | None = Field(default=None, description="Set if the user requested this attempt.")
    enhancement: Enhancement | None = Field(
        default=None, description="Prompt that the image model was given, if an enhancer rewrote it."
    )


FORMAT_VERSION = 1
MAX_CHECKS = 1_000
MAX_FINDINGS = MAX_STEPS


class StopReason(str, Enum):
    """Why no further attempt was made at a step. The values are shown to users and stored in files."""

    accepted = "accepted"
    """The critic accepted the chosen attempt."""
    attempts_used_up = "attempts used up"
    """No attempt was accepted. The chosen one is the best, or the last."""
    picked = "picked"
    """The user picked the chosen attempt, regardless of its verdict."""
    approved_by_time = "approved by time"
    """No user decided in time, so the run continued with the chosen attempt."""
    redrawn = "redrawn"
    """The user requested the chosen attempt, and the critic did not accept it."""
    unjudged = "unjudged"
    """Generated without a critic (a single attempt, or no critic given)."""
    unchecked = "not checked"
    """The critic accepted the image and did not answer the step's checklist."""
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

    @classmethod
    def _missing_(cls, value: object) -> StopReason | None:
        """Read the value that files up to 0.3.0 have."""
        return cls.attempts_used_up if value == "tries used up" else None


class StepResult(SparseValue):
    """A step with all its attempts. `chosen` is an index into `attempts`, or None without an image.

    `approved`: the user picked the attempt that the run kept itself, so no other image was chosen.
    """

    omitted = ("approved",)

    step: Step
    attempts: Several[Attempt] = Field(default=(), max_length=MAX_ATTEMPTS)
    chosen: int | None = None
    stop_reason: StopReason
    approved: bool = False

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


class Identities(SparseValue):
    """What made a run. Each string changes whenever its model or settings could give another result."""

    omitted = ("scorer",)

    planner: Text = ""
    generator: Text = ""
    critic: Text = ""
    prompt_set: Text = Field(default="", description="Digest of the prompt sets of planner and critic.")
    scorer: Text = Field(
        default="", description="Scorer that chooses between images; empty: the critic does."
    )


MAX_CHOICES = 10 * MAX_STEPS
MAX_REDRAWS = 100
"""Maximum number of requested attempts of one step."""
PictureDigest = Annotated[str, Field(pattern=DIGEST.pattern)]
StepNumber = Annotated[int, Field(ge=1)]


class RedrawRequest(SparseValue):
    """One more attempt that the user or the story check requested.

    `prompt` is the prompt to use, `planned` the step's prompt at the time of the request. The request is
    valid as long as the plan has that prompt. One of the story check, or with a `mask`, is about the image
    `about`, and is made only while the step has it. `story` is a digest of the texts of the story that was
    checked. With a mask, only this area of the image is generated again. `caption` replaces that of the step,
    `captioned`, as long as the plan has it.
    """

    omitted = ("about", "story", "mask", "caption", "captioned")

    by: RequestedBy = "user"
    planned: Text
    prompt: Annotated[Text, Field(min_length=1)]
    about: PictureDigest | None = None
    story: PictureDigest | None = None
    mask: Picture | None = None
    caption: Text | None = None
    captioned: Text | None = None


class Choices(SparseValue):
    """Content of choices.json: by step number, the picked image's digest and the requested attempts.

    `skips` are the skipped steps with their prompts at that time. A skip is valid as long as the plan has
    that prompt. `plan` is the digest of the planner's plan that the user approved. `timed` are the images
    that a time-out let pass, by step number; 0 is the plan.
    """

    omitted = ("redraws", "skips", "plan", "timed")

    format: Literal["interleave-thinker choices"] = "interleave-thinker choices"
    version: Literal[1] = 1
    steps: dict[StepNumber, PictureDigest] = Field(default_factory=dict, max_length=MAX_CHOICES)
    redraws: dict[StepNumber, Annotated[Several[RedrawRequest], Field(max_length=MAX_REDRAWS)]] = Field(
        default_factory=dict, max_length=MAX_CHOICES
    )
    skips: dict[StepNumber, Text] = Field(default_factory=dict, max_length=MAX_CHOICES)
    plan: PictureDigest | None = None
    timed: dict[Annotated[int, Field(ge=0)], PictureDigest] = Field(
        default_factory=dict, max_length=MAX_CHOICES
    )

    @property
    def digest(self) -> str:
        """40 hex digits of BLAKE2b over all choices."""
        return hashlib.blake2b(self.model_dump_json().encode(), digest_size=20).hexdigest()

    def about(self, step: int, **decision: PictureDigest | Text) -> Choices:
        """Return the choices with the user's decision about a step, which replaces the one before.

        Args:
            step: Number of the step.
            **decision: Field (`steps`, `skips` or `timed`) and the value for the step; none: no decision.
        """
        without = {
            name: {number: one for number, one in getattr(self, name).items() if number != step}
            for name in ("steps", "skips", "timed")
        }
        for name, value in decision.items():
            without[name][step] = value
        return self.model_copy(update=without)

    @property
    def approved_plan(self) -> str | None:
        """Digest of the plan that the user approved or a time-out let pass, if there is one."""
        return self.timed.get(0) or self.plan

    def requests(self, step: Step, style: str = "") -> dict[int, RedrawRequest]:
        """Return the requested attempts that are valid for a step as it is planned now.

        Args:
            step: The step, with the plan's style sentence before its prompt or without.
            style: The plan's style sentence.

        Returns:
            Numbers from 1, in ascending order, with their requests.
        """
        return {
            number: request
            for number, request in enumerate(self.redraws.get(step.number, ()), start=1)
            if step.prompt in (request.planned, in_style(request.planned, style))
        }

    def skipped(self, step: Step, style: str = "") -> bool:
        """Return whether the user skipped a step as it is planned now. Arguments are those of `requests`."""
        planned = self.skips.get(step.number)
        return planned is not None and step.prompt in (planned, in_style(planned, style))


class Trajectory(SparseValue):
    """A complete run: request, plan and all attempts.

    `unused` lists settings that had no effect. `checks` are the story checks of the run, oldest first.
    `clips` lead from one image to the next (story/clips.py). `choices` are the user's and the story check's
    decisions so far, which have a file of their own.
    """

    omitted = ("unused", "checks", "clips", "planning")

    version: int = FORMAT_VERSION
    request: Request
    plan: Plan
    results: Several[StepResult] = Field(default=(), max_length=MAX_STEPS)
    settings: RunSettings = RunSettings()
    identities: Identities = Identities()
    unused: Several[UnusedSetting] = ()
    checks: Several[StoryCheck] = Field(default=(), max_length=MAX_CHECKS)
    clips: Several[Clip] = Field(default=(), max_length=MAX_STEPS)
    planning: Spent = Field(default=Spent(), description="What the planner needed in this run.")
    choices: Choices = Field(default=Choices(), exclude=True)

    def painted(self, result: StepResult, attempt: Attempt) -> tuple[Picture | None, Picture | None]:
        """Return the mask of an attempt and the image that it edits, to which its verdict refers.

        Without a mask, that is the step's source image, and the verdict refers to the step's prompt.
        """
        number = attempt.redraw.number if attempt.redraw else 0
        request = self.choices.requests(result.step, self.plan.style).get(number)
        if not request or not request.mask:
            return None, attempt.source
        images = (one.image for one in result.attempts if one.image)
        return request.mask, next((one for one in images if one.digest == request.about), attempt.source)

    def judged_as_step(self, result: StepResult) -> StepResult:
        """Return a step without the critic's verdicts on painted areas, which are not about its prompt."""
        attempts = (
            one.model_copy(update={"verdict": None}) if self.painted(result, one)[0] else one
            for one in result.attempts
        )
        return result.model_copy(update={"attempts": tuple(attempts)})
