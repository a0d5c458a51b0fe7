"""Interface between the preference training loop (train.py) and the agents that it trains.

The loop handles pairs, steps and checkpoints. Agents differ only in how their answers to held-out questions
are checked. A planner's plans are judged if there is a judge and something to judge by; otherwise only their
format is checked.
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
    """An agent that is trained on pairs of answers."""

    def questions(self, rows: Sequence[Pair]) -> list[Pair]:
        """Return the pairs whose questions are asked in a check, each question once."""
        ...

    def answered(self, row: Pair, folder: Path, before: str, after: str) -> Answered:
        """Return a held-out question with its first and last answer, for the report."""
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
    """Trains a critic; held-out verdicts are compared with the truth in the pairs."""

    stage = "critic-dpo"
    agent = "critic"

    @property
    def check(self) -> type[CriticPairCheck]:
        """Class of a check's result: accuracy and both recalls."""
        return CriticPairCheck

    def identity(self) -> dict[str, Any]:
        """Return an empty identity: the check needs no judge."""
        return {}

    def questions(self, rows: Sequence[CriticPair]) -> list[CriticPair]:
        """Return all questions, each once."""
        return _once(rows)

    def summarise(
        self,
        rows: Sequence[CriticPair],
        answers: Sequence[str],
        lengths: Sequence[int],
        prompt_set: PromptSet,
    ) -> CriticPairCheck:
        """Compare the verdicts with the truth."""
        return critic_pair_check(rows, answers, lengths, prompt_set.verdict_first)

    def curves(self, checks: CheckLog[CriticPairCheck]) -> dict[str, Points]:
        """Return accuracy, recalls and format over steps."""
        return _points(checks, CURVES)

    def answered(self, row: CriticPair, folder: Path, before: str, after: str) -> Answered:
        """Return the question of the pair with its truth."""
        truth = f"truth: {'right' if row.truth else 'wrong'}; "
        return _answered(row, folder, truth, (before, after))


@dataclass(frozen=True)
class PlannerPairs:
    """Trains a planner; held-out plans are judged by `judge`, or only by their format if it is None.

    Image paths of the rows are relative to `images`.
    """

    images: Path
    judge: PlanJudge | None = None
    stage = "planner-dpo"
    agent = "planner"

    @property
    def check(self) -> type[Any]:
        """Class of a check's result: judged plans, or only their format."""
        return PlanFormCheck if self.judge is None else PlanCheck

    def identity(self) -> dict[str, Any]:
        """Return the identity of the judge, if there is one."""
        return {} if self.judge is None else {"judge": self.judge.identity}

    def questions(self, rows: Sequence[PlannerPair]) -> list[PlannerPair]:
        """Return each question once; with a judge only the questions that it can judge.

        Raises:
            SettingsError: No question can be judged, or one of them needs another judge.
        """
        once = _once(rows)
        if self.judge is None:
            return once
        judged = [row for row in once if row.judged_by() is not None]
        if not judged:
            raise SettingsError(
                "No held-out pair has a checklist or a reference plan to judge by.",
                "Omit --judge, or use pairs created by `data planner-pairs`.",
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
        """Judge the plans as planner-grpo does, or check their format without a judge."""
        if self.judge is None:
            return plan_form_check(answers, lengths)
        known = [one for row in rows if (one := row.judged_by()) is not None]
        judging, terms = PlanJudging(self.judge, JudgingSettings()), PlanRewardSettings()
        samples = asyncio.run(plan_samples(answers, known, judging, terms, self.images))
        return plan_check(samples, lengths, terms.most_copied)

    def curves(self, checks: CheckLog[Any]) -> dict[str, Points]:
        """Return the parts of the judgment, or the format, over steps."""
        return _points(checks, {name: name for name in PLAN_CURVES})

    def answered(self, row: PlannerPair, folder: Path, before: str, after: str) -> Answered:
        """Return the question of the pair with its chosen plan."""
        return _answered(row, folder, "", (before, after))
