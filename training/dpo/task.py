"""Whose preferences are learned: the seam between the one engine (train.py) and critic and planner.

Decision: the engine knows pairs, steps and checkpoints. What differs between agents is only how the answers
to held-out questions are checked; a planner's are judged where a judge and something to judge by is given,
else looked at for their form.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ...backend.errors import SettingsError
from ...backend.pictures import Picture
from ...backend.prompts import PromptSet
from ..data.rows.preference import CriticPair, Pair, PlannerPair, PreferenceRow
from ..gate.held_out import CheckLog, Found
from ..gate.monitored_run import MonitoredTask
from ..gate.plan_checks import PlanCheck, plan_check
from ..grpo.critic_task import CURVES
from ..grpo.planner_task import CURVES as PLAN_CURVES
from ..reward.plans.judges import PlanJudge
from ..reward.plans.judging import JudgingSettings, PlanJudging
from ..reward.plans.reward import plan_samples
from ..reward.plans.terms import PlanRewardSettings
from ..trainer.report.html_report import Answered, Points
from .checks import CriticPairCheck, PlanFormCheck, critic_pair_check, plan_form_check


class PairTask(MonitoredTask[Pair, Found], Protocol[Pair, Found]):
    """An agent whose answers are compared in pairs."""

    def questions(self, rows: Sequence[Pair]) -> list[Pair]:
        """The pairs whose questions are asked in a check, each question once."""
        ...

    def answered(self, row: Pair, folder: Path, before: str, after: str) -> Answered:
        """A held-out question with its first and last answer, for the end page."""
        ...


def _once(rows: Sequence[Pair]) -> list[Pair]:
    return list({row.question: row for row in reversed(rows)}.values())[::-1]


def _points(checks: CheckLog[Any], fields: dict[str, str]) -> dict[str, Points]:
    curves: dict[str, Points] = {name: [] for name in fields}
    for step, check in checks.all.items():
        for name, field in fields.items():
            value = getattr(check, field, None)
            if value is not None:
                curves[name].append((float(step), value))
    return curves


def _answered(row: PreferenceRow, folder: Path, truth: str, said: tuple[str, str]) -> Answered:
    return Answered(
        question=" / ".join(message.content for message in row.messages)[-2000:],
        images=tuple(Picture.open(folder / name) for name in row.images),
        truth=f"{truth}chosen: {row.chosen}",
        before=said[0],
        after=said[1],
    )


@dataclass(frozen=True)
class CriticPairs:
    """A critic; its held-out verdicts are held against the truth in the pairs."""

    stage = "critic-dpo"
    agent = "critic"

    @property
    def check(self) -> type[CriticPairCheck]:
        """Both recalls."""
        return CriticPairCheck

    def identity(self) -> dict[str, Any]:
        """Nobody else checks."""
        return {}

    def questions(self, rows: Sequence[CriticPair]) -> list[CriticPair]:
        """All of them, each once."""
        return _once(rows)

    def summarise(
        self,
        rows: Sequence[CriticPair],
        answers: Sequence[str],
        lengths: Sequence[int],
        prompt_set: PromptSet,
    ) -> CriticPairCheck:
        """Verdicts against the truth."""
        return critic_pair_check(rows, answers, lengths, prompt_set.verdict_first)

    def curves(self, checks: CheckLog[CriticPairCheck]) -> dict[str, Points]:
        """Accuracy, recalls, form."""
        return _points(checks, CURVES)

    def answered(self, row: CriticPair, folder: Path, before: str, after: str) -> Answered:
        """The pair's question with its truth."""
        truth = f"in truth {'right' if row.truth else 'wrong'}; "
        return _answered(row, folder, truth, (before, after))


@dataclass(frozen=True)
class PlannerPairs:
    """A planner; its held-out plans are judged by `judge` where one is given (images are relative to
    `images`), else by their form."""

    images: Path
    judge: PlanJudge | None = None
    stage = "planner-dpo"
    agent = "planner"

    @property
    def check(self) -> type[Any]:
        """Judged plans, or their form."""
        return PlanFormCheck if self.judge is None else PlanCheck

    def identity(self) -> dict[str, Any]:
        """The judge."""
        return {} if self.judge is None else {"judge": self.judge.identity}

    def questions(self, rows: Sequence[PlannerPair]) -> list[PlannerPair]:
        """Each once; those that the judge can judge by, where there is a judge. Raises SettingsError for one
        that another judge would be needed for."""
        once = _once(rows)
        if self.judge is None:
            return once
        judged = [row for row in once if row.judged_by() is not None]
        if not judged:
            raise SettingsError(
                "No held-out pair says what a plan for its request must have (checklist or reference).",
                "Leave out --judge, or give pairs of `data planner-pairs`.",
            )
        for row in judged:
            known = row.judged_by()
            assert known is not None
            self.judge.check(known)
        return judged

    def summarise(
        self,
        rows: Sequence[PlannerPair],
        answers: Sequence[str],
        lengths: Sequence[int],
        prompt_set: PromptSet,
    ) -> Any:
        """The plans, judged as planner-grpo judges them."""
        if self.judge is None:
            return plan_form_check(answers, lengths)
        known = [one for row in rows if (one := row.judged_by()) is not None]
        judging, terms = PlanJudging(self.judge, JudgingSettings()), PlanRewardSettings()
        samples = asyncio.run(plan_samples(answers, known, judging, terms, self.images))
        return plan_check(samples, lengths, terms.most_copied)

    def curves(self, checks: CheckLog[Any]) -> dict[str, Points]:
        """The parts of the judgement, or the form."""
        return _points(checks, {name: name for name in PLAN_CURVES})

    def answered(self, row: PlannerPair, folder: Path, before: str, after: str) -> Answered:
        """The pair's question with its better plan."""
        return _answered(row, folder, "", (before, after))
