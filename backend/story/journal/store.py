"""The store of a run: plans, images and verdicts, each under a key of everything that made it.

A key is the digest of a model and its arguments. So caching, resuming after a kill, and repeating only what
changed are the same look-up. `InMemoryStore` keeps the records in this process, for a run without a folder;
`journal.Journal` keeps them on disk. Failures are recorded for the reader but never returned from the cache,
so running again repeats them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import Field

from ...core.pictures import Picture
from ...core.types import (
    MAX_BATCH,
    MAX_CHECKS,
    MAX_IMAGES,
    MAX_STEPS,
    Attempt,
    Choices,
    Enhancement,
    Fault,
    Identities,
    Plan,
    RedrawRequest,
    Request,
    RunSettings,
    Score,
    Several,
    Spent,
    StepSettings,
    StoryCheck,
    Text,
    Trajectory,
    Verdict,
    step_identity,
)
from ...core.types.checklist import ChecklistItem
from ...core.types.values import SparseValue, bounded_identity
from .choices import with_request
from .run_files import Digest, Key
from .waiting import Waiting


class PlanKey(Key):
    """A planner (as in `Identities`) and its request."""

    planner: Text
    text: Text
    images: Several[Digest] = Field(default=(), max_length=MAX_IMAGES)

    @classmethod
    def of(cls, planner: str, request: Request) -> PlanKey:
        """Return the key of a planner's identity and a request."""
        images = tuple(image.digest for image in request.images)
        return cls(planner=planner, text=request.text, images=images)


class DrawKey(Key):
    """A generator and its arguments; `source=None` means text-to-image."""

    generator: Text
    prompt: Text
    seed: int
    source: Digest | None

    @classmethod
    def of(
        cls, generator: str, prompt: str, source: Picture | None, seed: int, settings: StepSettings
    ) -> DrawKey:
        """Return the key of a call of the generator with this identity."""
        digest = source.digest if source else None
        return cls(generator=step_identity(generator, settings), prompt=prompt, seed=seed, source=digest)


class JudgeKey(Key):
    """A critic (as in `Identities`) and its arguments; `before=None` means a white image."""

    critic: Text
    before: Digest | None
    after: Digest
    original_prompt: Text
    prompt_used: Text

    @classmethod
    def of(cls, critic: str, original: str, attempt: Attempt) -> JudgeKey:
        """Return the key of the verdict on the image of an attempt by the critic with this identity."""
        assert attempt.image is not None, "only images are judged"
        return cls(
            critic=critic,
            before=attempt.source.digest if attempt.source else None,
            after=attempt.image.digest,
            original_prompt=original,
            prompt_used=attempt.prompt,
        )


CHECKS = 1
"""Version of the question about an item. A change makes cached answers invalid."""


def checked_key(key: JudgeKey, items: Sequence[ChecklistItem]) -> JudgeKey:
    """Return the key of a verdict that also answers the items of a checklist.

    How reliable the critic is (its agent card) is not part of it, so that a card that is added later leaves
    the answers of old runs valid.

    Args:
        key: Key of the verdict without them.
        items: The items.
    """
    asked = json.dumps([CHECKS, *([item.text, item.kind] for item in items)])
    return key.model_copy(update={"critic": bounded_identity(f"{key.critic} checklist={asked}")})


def score_key(scorer: str, original: str, attempt: Attempt, compared: Sequence[str] = ()) -> JudgeKey:
    """Return the key of a scorer's score; it is stored like a verdict.

    Args:
        scorer: Identity of the scorer.
        original: Prompt from the plan.
        attempt: The attempt whose image is scored.
        compared: Digests of the images that it was compared with, if the scorer compares images.
    """
    others = f" compared={json.dumps(sorted(compared))}" if compared else ""
    key = JudgeKey.of(bounded_identity(f"score {scorer}{others}"), original, attempt)
    return key.model_copy(update={"prompt_used": ""})


class DrawRecord(SparseValue):
    """One generator call: its image or error, and its wall time in seconds.

    `more` are the further images of a batch. `enhancement` is what a prompt enhancer made of the prompt.
    `draft` is the model's own image, if a correction made `image` of it.
    """

    omitted = ("enhancement", "draft")

    key: DrawKey
    image: Picture | None = None
    error: Fault | None = None
    seconds: float = Field(default=0.0, ge=0.0)
    more: Several[Picture] = Field(default=(), max_length=MAX_BATCH - 1)
    enhancement: Enhancement | None = None
    draft: Picture | None = None

    @property
    def images(self) -> tuple[Picture, ...]:
        """All images of the call; empty if it failed."""
        return () if self.image is None else (self.image, *self.more)


class JudgementRecord(Spent):
    """One judgement: a critic's verdict, a scorer's score, or an error; and what it needed."""

    omitted = ("score", *Spent.omitted)

    key: JudgeKey
    verdict: Verdict | None = None
    error: Fault | None = None
    score: Score | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the judgement can be used again."""
        return self.verdict is not None or self.score is not None


class StoryKey(Key):
    """A story checker and what it is shown; `pages` are step numbers, texts and images."""

    checker: Text
    request: Text
    pages: Several[tuple[int, Text, Digest]] = Field(max_length=MAX_STEPS)


__all__ = [
    "DrawKey",
    "DrawRecord",
    "InMemoryStore",
    "JudgeKey",
    "JudgementRecord",
    "PlanKey",
    "RunStore",
    "StoryKey",
    "checked_key",
    "with_check",
]


def with_check(checks: tuple[StoryCheck, ...], check: StoryCheck) -> tuple[StoryCheck, ...]:
    """Return the story checks with one more, which replaces one with the same key. The oldest are dropped."""
    return (*(one for one in checks if one.key != check.key), check)[-MAX_CHECKS:]


class RunStore:
    """The store of the loop. Between `begin` and `end` a store belongs to one run.

    This base class remembers nothing.
    """

    def begin(self, request: Request, settings: RunSettings, identities: Identities) -> None:
        """Start or resume a run.

        Raises:
            JournalError: The store cannot be used for this run.
        """

    def end(self) -> None:
        """End the run, for any reason. It must be safe to call this twice."""

    def keep_settings(self, settings: RunSettings) -> None:
        """Store the settings of the run after its plan has completed them."""

    def written_plan(self) -> Plan | None:
        """Return the plan that the user wrote, which a planner may not replace."""
        return None

    def plan(self, key: PlanKey) -> Plan | None:
        """Return the plan that this planner wrote for this request, if there is one."""
        return None

    def keep_plan(self, plan: Plan, key: PlanKey | None, spent: Spent | None = None) -> None:
        """Store the plan, and what the planner needed. Without `key` it is the user's plan."""

    def planning(self) -> Spent:
        """Return what the planner needed for the plan."""
        return Spent()

    def drawn(self, key: DrawKey) -> DrawRecord | None:
        """Return the cached images of a generator call."""
        return None

    def keep_drawn(self, drawn: DrawRecord) -> None:
        """Store the record of a generator call."""

    def judged(self, key: JudgeKey) -> JudgementRecord | None:
        """Return the cached verdict or score."""
        return None

    def keep_judged(self, judged: JudgementRecord) -> None:
        """Store the record of a judgement."""

    def choices(self) -> Choices:
        """Return what the user and the story check decided so far. They may decide more at any time."""
        return Choices()

    def request_redraw(self, step: int, request: RedrawRequest) -> None:
        """Request one more attempt at a step."""

    def story_checks(self) -> tuple[StoryCheck, ...]:
        """Return the story checks of this run, oldest first."""
        return ()

    def keep_story_check(self, check: StoryCheck) -> None:
        """Store a story check. It replaces one with the same key."""

    def keep_waiting(self, waiting: Waiting | None) -> Waiting | None:
        """Store what the run waits for, if it waits. Return it with the time at which the wait began."""
        return waiting

    def with_clips(self, trajectory: Trajectory) -> Trajectory:
        """Return a trajectory with the stored clips that belong to it."""
        return trajectory

    def finish(self, trajectory: Trajectory) -> None:
        """Store the trajectory of a run that has ended or was cancelled."""


class InMemoryStore(RunStore):
    """A store in the RAM of this process; the reference for what a journal does on disk.

    The user cannot decide anything in it.
    """

    def __init__(self) -> None:
        self._plans: dict[PlanKey | None, Plan] = {}
        self._draws: dict[DrawKey, DrawRecord] = {}
        self._judgements: dict[JudgeKey, JudgementRecord] = {}
        self._choices, self._planning = Choices(), Spent()
        self._checks: tuple[StoryCheck, ...] = ()
        self.trajectory: Trajectory | None = None

    def written_plan(self) -> Plan | None:
        """Return the user's plan, if there is one."""
        return self._plans.get(None)

    def plan(self, key: PlanKey) -> Plan | None:
        """Return the cached plan of this planner and request."""
        return self._plans.get(key)

    def keep_plan(self, plan: Plan, key: PlanKey | None, spent: Spent | None = None) -> None:
        """Store the plan."""
        self._plans[key], self._planning = plan, spent or self._planning

    def planning(self) -> Spent:
        """Return what the planner needed."""
        return self._planning

    def drawn(self, key: DrawKey) -> DrawRecord | None:
        """Return the cached images of a generator call."""
        return self._draws.get(key)

    def keep_drawn(self, drawn: DrawRecord) -> None:
        """Store the record of a generator call, unless it failed."""
        if drawn.image is not None:
            self._draws[drawn.key] = drawn

    def judged(self, key: JudgeKey) -> JudgementRecord | None:
        """Return the cached verdict."""
        return self._judgements.get(key)

    def keep_judged(self, judged: JudgementRecord) -> None:
        """Store the record of a judgement, unless it failed."""
        if judged.succeeded:
            self._judgements[judged.key] = judged

    def choices(self) -> Choices:
        """Return the attempts that the story check requested."""
        return self._choices

    def request_redraw(self, step: int, request: RedrawRequest) -> None:
        """Request one more attempt at a step."""
        self._choices = with_request(self._choices, step, request)

    def story_checks(self) -> tuple[StoryCheck, ...]:
        """Return the story checks of this run, oldest first."""
        return self._checks

    def keep_story_check(self, check: StoryCheck) -> None:
        """Store a story check. It replaces one with the same key."""
        self._checks = with_check(self._checks, check)

    def finish(self, trajectory: Trajectory) -> None:
        """Store the trajectory."""
        self.trajectory = trajectory
