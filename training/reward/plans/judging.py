"""Plans judged by the batch: equal ones once, several at a time, each call with a deadline, failures counted.

Decision: a judge that fails leaves its sample out of the group and is no reason to stop before many have
failed; a training without a judge learns nothing and says so.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ....backend.errors import Cancelled, InterleaveError, ScorerError, SettingsError, boundary
from ....backend.pictures import Picture
from ....backend.types import Plan
from ...data.rows.planner_rl import PlannerRlRow
from ..redraws.bounded_calls import BoundedCalls, CallTimeout
from ..redraws.failures import Failures
from .judges import PlanJudge, PlanScore

RETRY_SECONDS = 1.0


class JudgingSettings(BaseModel):
    """How the judge of plans is called."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    parallel_scores: int = Field(
        default=8, ge=1, le=256, description="Plans that the judge is asked about at once."
    )
    score_seconds: float = Field(
        default=300.0, gt=0, le=86400, description="Longest wait for one judgement, in seconds."
    )
    tries: int = Field(default=3, ge=1, le=10, description="Times that a failed judgement is asked for.")
    max_failures: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Share of the last 512 judgements that may fail; past it training stops.",
    )

    def longest(self, plans: int) -> float:
        """Seconds after which so many plans are judged or given up."""
        pauses = RETRY_SECONDS * (2 ** (self.tries - 1) - 1)
        return math.ceil(plans / self.parallel_scores) * (self.tries * self.score_seconds + pauses)


@dataclass(frozen=True)
class PlanOutcome:
    """What came of a judgement: the score, or None and the reason."""

    score: PlanScore | None
    fault: str = ""


class PlanJudging:
    """Judges batches of plans with one judge; keeps count of failures over the last ones."""

    def __init__(self, judge: PlanJudge, settings: JudgingSettings) -> None:
        self.judge = judge
        self.settings = settings
        self._calls = BoundedCalls(f"The judge {judge.identity!r}", settings.parallel_scores)
        self._failures = Failures("judgements", settings.max_failures)
        self._picture = lru_cache(maxsize=512)(Picture.open)

    @property
    def problem(self) -> str | None:
        """Why training should stop, None while failures are few."""
        return self._failures.problem()

    @property
    def problem_at_end(self) -> str | None:
        """Like `problem`, after the last judgement: a few failures are then enough."""
        return self._failures.problem(at_end=True)

    async def score_all(
        self, rows: Sequence[PlannerRlRow], plans: Sequence[Plan | None], folder: Path
    ) -> list[PlanOutcome | None]:
        """An outcome for every plan, in order; None where there is no plan. Images of rows are relative to
        `folder`. Raises only Cancelled and SettingsError."""
        keys = [
            (row.line(), plan.model_dump_json()) if plan is not None else None
            for row, plan in zip(rows, plans, strict=True)
        ]
        asked: dict[tuple[str, str], tuple[PlannerRlRow, Plan]] = {}
        for key, row, plan in zip(keys, rows, plans, strict=True):
            if key is not None and plan is not None:
                asked.setdefault(key, (row, plan))
        found = await asyncio.gather(*(self._outcome(row, plan, folder) for row, plan in asked.values()))
        outcomes = dict(zip(asked, found, strict=True))
        for outcome in found:
            self._failures.add(outcome.score is None, outcome.fault)
        return [None if key is None else outcomes[key] for key in keys]

    async def _outcome(self, row: PlannerRlRow, plan: Plan, folder: Path) -> PlanOutcome:
        def score() -> PlanScore:
            with boundary(ScorerError, "The judge failed"):
                return self.judge.score(row, plan, [self._picture(folder / name) for name in row.images])

        for number in range(self.settings.tries):
            try:
                return PlanOutcome(await self._calls.call(score, self.settings.score_seconds))
            except (Cancelled, SettingsError):
                raise
            except CallTimeout as error:
                return PlanOutcome(None, str(error))
            except InterleaveError as error:
                if number + 1 == self.settings.tries:
                    return PlanOutcome(None, str(error))
                await asyncio.sleep(RETRY_SECONDS * 2**number)
        raise AssertionError("the last try returns")
