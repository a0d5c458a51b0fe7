"""What a run remembers: plans, draws and judgements, each under a key that names everything that made it.

Decision: one key is the digest of the maker and its arguments. "Never draw the same thing twice", resume
after a kill and "repeat only what changed" are then one look-up. `Memory` keeps it in this process for a run
without a folder; journal.Journal keeps it on disk. Failures are recorded for the reader but never found
again: running again tries again.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Protocol

from pydantic import Field

from ..pictures import Picture
from ..types import (
    MAX_BATCH,
    MAX_IMAGES,
    Fault,
    Identities,
    Plan,
    Request,
    RunSettings,
    Several,
    Step,
    Text,
    Trajectory,
    Value,
    Verdict,
)

Digest = Annotated[str, Field(max_length=64)]


class Key(Value):
    """Everything that made something; pictures stand in it as their digests."""

    @property
    def digest(self) -> str:
        """40 hex digits of BLAKE2b over kind and fields."""
        content = json.dumps([type(self).__name__, self.model_dump()], sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=20).hexdigest()


class PlanKey(Key):
    """A planner (as in `Identities`) and the request it was given."""

    planner: Text
    text: Text
    images: Several[Digest] = Field(default=(), max_length=MAX_IMAGES)


class DrawKey(Key):
    """A generator and what it was asked to draw; `source` None is text-to-image."""

    generator: Text
    prompt: Text
    seed: int
    source: Digest | None


class JudgeKey(Key):
    """A critic (as in `Identities`) and what it was shown; `before` None is the blank page."""

    critic: Text
    before: Digest | None
    after: Digest
    original_prompt: Text
    prompt_used: Text


class DrawRecord(Value):
    """One draw: the image, or the fault that came instead, and the wall seconds it took.

    `more` are the further images of a draw that gave a batch.
    """

    key: DrawKey
    image: Picture | None = None
    error: Fault | None = None
    seconds: float = Field(default=0.0, ge=0.0)
    more: Several[Picture] = Field(default=(), max_length=MAX_BATCH - 1)

    @property
    def images(self) -> tuple[Picture, ...]:
        """All images of the draw, none if it failed."""
        return () if self.image is None else (self.image, *self.more)


class JudgementRecord(Value):
    """One judgement: the verdict, or the fault that came instead, and the wall seconds it took."""

    key: JudgeKey
    verdict: Verdict | None = None
    error: Fault | None = None
    seconds: float = Field(default=0.0, ge=0.0)


class RunStore(Protocol):
    """What the loop asks of a memory. Between `begin` and `end` a memory belongs to one run."""

    def begin(self, request: Request, settings: RunSettings, identities: Identities) -> None:
        """Start or continue a run; raises JournalError where this memory cannot serve it."""
        ...

    def end(self) -> None:
        """The run is over, whatever the reason; must be safe to call twice."""
        ...

    def written_plan(self) -> Plan | None:
        """A plan that a person put here, which no planner may replace."""
        ...

    def prompt_sets(self) -> frozenset[str]:
        """Return the digests of the prompt sets that the run was made with so far."""
        ...

    def plan(self, key: PlanKey) -> Plan | None: ...

    def keep_plan(self, plan: Plan, key: PlanKey | None) -> None:
        """Keep the plan; `key` None: a person gave it."""
        ...

    def drawn(self, key: DrawKey) -> DrawRecord | None: ...

    def keep_drawn(self, drawn: DrawRecord) -> None: ...

    def judged(self, key: JudgeKey) -> JudgementRecord | None: ...

    def keep_judged(self, judged: JudgementRecord) -> None: ...

    def user_selected(self, step: int) -> str | None:
        """Digest of the image that a person picked as the result of the step of this number, if anyone
        did."""
        ...

    def redraws(self, step: Step) -> dict[int, str]:
        """Further attempts that a person asked for at this step: their numbers, rising, and prompts. Read
        before every draw, for it may be asked at any time."""
        ...

    def finish(self, trajectory: Trajectory) -> None:
        """Keep the trajectory of a run that came to its end or was cancelled."""
        ...


class InMemoryStore:
    """The memory of this process, gone with it; the reference for what a journal does on disk."""

    def __init__(self) -> None:
        self._plans: dict[PlanKey | None, Plan] = {}
        self._draws: dict[DrawKey, DrawRecord] = {}
        self._judgements: dict[JudgeKey, JudgementRecord] = {}
        self.trajectory: Trajectory | None = None

    def begin(self, request: Request, settings: RunSettings, identities: Identities) -> None:
        pass

    def end(self) -> None:
        pass

    def written_plan(self) -> Plan | None:
        return self._plans.get(None)

    def prompt_sets(self) -> frozenset[str]:
        return frozenset()

    def plan(self, key: PlanKey) -> Plan | None:
        return self._plans.get(key)

    def keep_plan(self, plan: Plan, key: PlanKey | None) -> None:
        self._plans[key] = plan

    def drawn(self, key: DrawKey) -> DrawRecord | None:
        return self._draws.get(key)

    def keep_drawn(self, drawn: DrawRecord) -> None:
        if drawn.image is not None:
            self._draws[drawn.key] = drawn

    def judged(self, key: JudgeKey) -> JudgementRecord | None:
        return self._judgements.get(key)

    def keep_judged(self, judged: JudgementRecord) -> None:
        if judged.verdict is not None:
            self._judgements[judged.key] = judged

    def user_selected(self, step: int) -> str | None:
        return None

    def redraws(self, step: Step) -> dict[int, str]:
        return {}

    def finish(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
