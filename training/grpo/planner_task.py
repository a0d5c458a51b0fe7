"""GRPO task of the planner: a row shows a request, and its plan is judged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ...backend.prompts.prompt_set import PromptSet
from ..data.rows.lengths import ShownRow
from ..data.rows.rl import PlannerRlRow, planner_question, planner_shown
from ..gate.plan_checks import PlanCheck, plan_check
from ..reward.plans.judges import PlanJudge
from ..reward.plans.judging import JudgingSettings, PlanJudging
from ..reward.plans.reward import PlannerReward, plan_samples
from ..reward.plans.terms import PlanRewardSettings
from ..reward.rollout_reward import RolloutReading
from ..trainer.report.progress_line import PLANNER_GRPO_PARTS
from ..trainer.step_clock import StepClock
from .settings import GrpoTraining


@dataclass(frozen=True)
class PlannerTask:
    """Rewards a planner for its plans with `judge`; image paths of the rows are relative to `images`."""

    judge: PlanJudge
    terms: PlanRewardSettings
    judging: JudgingSettings
    images: Path
    stage = "planner-grpo"
    agent = "planner"
    check = PlanCheck
    parts = PLANNER_GRPO_PARTS

    def require(self) -> None:
        """Do nothing: the planner needs only the training libraries."""

    def identity(self) -> dict[str, Any]:
        """Return the judge and the terms of the reward."""
        return {**self.rewarders(), **self.terms.model_dump(mode="json")}

    def rewarders(self) -> dict[str, str]:
        """Return the identity of the judge."""
        return {"judge": self.judge.identity}

    def settings(self) -> Sequence[BaseModel]:
        """Return the terms of the reward, and the settings of the judge's calls."""
        return self.terms, self.judging

    def written(self, row: PlannerRlRow) -> str:
        """Return the row as JSON."""
        return row.line()

    def shown(self, row: PlannerRlRow, images: Path, prompt_set: PromptSet, pixels: int) -> ShownRow:
        """Return the row as it is measured before a model is loaded.

        Raises:
            SettingsError: The judge cannot judge plans for this row.
        """
        self.judge.check(row)
        return planner_shown(row, images, prompt_set, pixels)

    def question(
        self, row: PlannerRlRow, images: Path, shown: Path, prompt_set: PromptSet, pixels: int
    ) -> dict[str, Any]:
        """Return the row in the format of trl's trainer."""
        return planner_question(row, images, shown, prompt_set, pixels)

    def check_rows(self, rows: Sequence[PlannerRlRow], settings: GrpoTraining) -> list[PlannerRlRow]:
        """Return the first rows."""
        return list(rows[: settings.check_rows])

    def reward(self, out: Path, reading: RolloutReading, rollouts: Path, clock: StepClock) -> PlannerReward:
        """Return the planner's reward; answers of a chat judge are cached in `out`."""
        self.judge.keep_in(out / "judgements.sqlite")
        judging = PlanJudging(self.judge, self.judging)
        return PlannerReward(judging, self.terms, reading, rollouts, clock)

    def summarise(
        self,
        rows: Sequence[PlannerRlRow],
        answers: Sequence[str],
        lengths: Sequence[int],
        prompt_set: PromptSet,
    ) -> PlanCheck:
        """Judge the held-out plans in the same way as the rewarded ones."""
        judging = PlanJudging(self.judge, self.judging)
        samples = asyncio.run(plan_samples(answers, rows, judging, self.terms, self.images))
        return plan_check(samples, lengths, self.terms.most_copied)

    def longest(self, answers: int) -> float:
        """Return the longest time of a reward in seconds, from the deadlines of the judge."""
        return self.judging.longest(answers)
