"""GRPO task of the planner: a row shows a request, and its plan is judged as a text or also by its images."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ...backend.pictures import Picture
from ...backend.prompts import PromptSet
from ..data.rows.lengths import ShownRow
from ..data.rows.planner_rl import PlannerRlRow, planner_question, planner_shown
from ..gate.held_out import CheckLog
from ..gate.plan_checks import PlanCheck, plan_check
from ..reward.plans.execution import ExecutionSetup
from ..reward.plans.judges import PlanJudge
from ..reward.plans.judging import JudgingSettings, PlanJudging
from ..reward.plans.reward import PlannerReward, rewarded_samples
from ..reward.plans.terms import PlanRewardSettings
from ..reward.rollout_reward import RolloutReading
from ..trainer.report.html_report import Answered, Points
from ..trainer.report.progress_line import EXECUTED_PARTS, PLANNER_GRPO_PARTS, LineParts
from ..trainer.step_clock import StepClock
from .settings import GrpoTraining

CURVES = ("match", "exact", "consistency", "length", "format", "executed", "copies")


@dataclass(frozen=True)
class PlannerTask:
    """Rewards a planner for its plans with `judge`; image paths of the rows are relative to `images`.

    With `execution` plans are also executed, and their images are scored.
    """

    judge: PlanJudge
    terms: PlanRewardSettings
    judging: JudgingSettings
    images: Path
    execution: ExecutionSetup | None = None
    stage = "planner-grpo"
    agent = "planner"
    check = PlanCheck

    @property
    def parts(self) -> LineParts:
        """Parts of a log entry that the progress line shows."""
        return (*PLANNER_GRPO_PARTS, *EXECUTED_PARTS) if self.execution else PLANNER_GRPO_PARTS

    def require(self) -> None:
        """Do nothing: the planner needs only the training libraries."""

    def identity(self) -> dict[str, Any]:
        """Return the judge and the terms of the reward, and what executes plans."""
        # Without execution the identity is that of trainings before plans could be executed.
        executed = self.execution.identity() if self.execution else {}
        return {**self.rewarders(), **self.terms.model_dump(mode="json"), **executed}

    def rewarders(self) -> dict[str, str]:
        """Return the identities of the judge, and of generator and scorer if plans are executed."""
        return {"judge": self.judge.identity, **(self.execution.rewarders() if self.execution else {})}

    def settings(self) -> Sequence[BaseModel]:
        """Return the terms of the reward, and the settings of the judge's calls and of the execution."""
        executed = (self.execution.settings,) if self.execution else ()
        return self.terms, self.judging, *executed

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
        """Return the planner's reward; answers of a chat judge and images are cached in `out`."""
        self.judge.keep_in(out / "judgements.sqlite")
        execution = self.execution.open(out, self.judging, reading.seed) if self.execution else None
        judging = PlanJudging(self.judge, self.judging)
        return PlannerReward(judging, self.terms, reading, rollouts, clock, execution)

    def summarise(
        self,
        rows: Sequence[PlannerRlRow],
        answers: Sequence[str],
        lengths: Sequence[int],
        prompt_set: PromptSet,
    ) -> PlanCheck:
        """Judge the held-out plans in the same way as the rewarded ones."""
        judging = PlanJudging(self.judge, self.judging)
        execution = self.execution.opened if self.execution else None
        rewarded = rewarded_samples(answers, rows, judging, self.terms, self.images, execution)
        samples, _ = asyncio.run(rewarded)
        return plan_check(samples, lengths, self.terms.most_copied)

    def longest(self, answers: int) -> float:
        """Return the longest time of a reward in seconds, from the deadlines of judge and generator."""
        executed = self.execution.longest(answers, self.judging) if self.execution else 0.0
        return self.judging.longest(answers) + executed

    def curves(self, checks: CheckLog[PlanCheck]) -> dict[str, Points]:
        """Return the held-out measures per training step."""
        measured = {
            name: [(float(step), getattr(check, name)) for step, check in checks.all.items()]
            for name in CURVES
        }
        return {name: [point for point in curve if point[1] is not None] for name, curve in measured.items()}

    def answered(self, row: PlannerRlRow, question: dict[str, Any], before: str, after: str) -> Answered:
        """Return a held-out request with the content that its plan must have."""
        required = [step.prompt or step.auxiliary_text or "" for step in row.reference] or row.checklist
        return Answered(
            question=row.request,
            images=tuple(Picture.open(path) for path in question["images"]),
            truth="requested: " + "; ".join(required),
            before=before,
            after=after,
        )
