"""Judges batches of plans: identical ones once, several at a time, with a deadline for each call.

A failed judgment leaves its sample out of the group and stops the training only after many failures. A
training without a judge learns nothing, and reports it.
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
from ...data.rows.rl import PlannerRlRow
from ..redraws.bounded_calls import BoundedCalls, CallTimeout
from ..redraws.failures import Failures
from .judges import PlanJudge, PlanScore

RETRY_SECONDS = 1.0


class JudgingSettings(BaseModel):
    """Settings of the calls to the judge of plans."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    parallel_scores: int = Field(default=8, ge=1, le=256, description="Plans judged at the same time.")
    score_seconds: float = Field(
        default=300.0, gt=0, le=86400, description="Timeout of a judgment, in seconds."
    )
    tries: int = Field(default=3, ge=1, le=10, description="Attempts per judgment, including the first.")
    max_failures: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Training stops if more than this share of the last 512 judgments failed.",
    )

    def longest(self, plans: int) -> float:
        """Return the seconds after which this many plans are judged or have failed."""
        pauses = RETRY_SECONDS * (2 ** (self.tries - 1) - 1)
        return math.ceil(plans / self.parallel_scores) * (self.tries * self.score_seconds + pauses)


@dataclass(frozen=True)
class PlanOutcome:
    """Result of a judgment: the score, or None with the reason."""

    score: PlanScore | None
    fault: str = ""


class PlanJudging:
    """Judges batches of plans with one judge, and counts the recent failures."""

    def __init__(self, judge: PlanJudge, settings: JudgingSettings) -> None:
        self.judge = judge
        self.settings = settings
        self._calls = BoundedCalls(f"The judge {judge.identity!r}", settings.parallel_scores)
        self._failures = Failures("judgments", settings.max_failures)
        self._picture = lru_cache(maxsize=512)(Picture.open)

    @property
    def problem(self) -> str | None:
        """Why training should stop, or None while failures are few."""
        return self._failures.problem()

    @property
    def problem_at_end(self) -> str | None:
        """Like `problem`, after the last judgment, when a few failures are enough."""
        return self._failures.problem(at_end=True)

    async def score_all(
        self, rows: Sequence[PlannerRlRow], plans: Sequence[Plan | None], folder: Path
    ) -> list[PlanOutcome | None]:
        """Judge the plans.

        Args:
            rows: Row of each plan.
            plans: Plans, or None to skip one.
            folder: Folder to which the rows' image paths are relative.

        Returns:
            An outcome for each plan, in order; None for a skipped one.

        Raises:
            Cancelled: The run was cancelled.
            SettingsError: A cache cannot be used.
        """
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
        raise AssertionError("the last attempt returns")
