"""What GRPO trains: a critic, or a planner.

The training loop (grpo.py) handles rollouts, steps, checkpoints and checks. A task supplies everything that
differs between agents: the question of a row, the reward of an answer and the measures on held-out rows. A
new kind of reward is a new task and leaves the loop unchanged.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel

from ...backend.core.machine.libraries import require
from ...backend.core.prompts.agent_card import Role
from ...backend.core.prompts.prompt_set import PromptSet
from ..gate.held_out import Check, HeldOutCheck, PlanCheck, plan_check, summarise
from ..reward.critic_reward import CriticReward, RewardSetup
from ..reward.plan_judges import JudgingSettings, PlanJudge, PlanJudging
from ..reward.plan_reward import PlannerReward, PlanRewardSettings, plan_samples
from ..reward.rollout_reward import RolloutReading, RolloutReward
from ..rows.lengths import ShownRow
from ..rows.rl import CriticRlRow, PlannerRlRow, as_question, planner_question, planner_shown, shown_of
from ..trainer.progress import GRPO_PARTS, PLANNER_GRPO_PARTS, LineParts, StepClock
from .grpo_settings import GrpoTraining, check_rows_of

Row = TypeVar("Row", bound=BaseModel)


class Task(ABC, Generic[Row]):
    """An agent to train with GRPO: its questions, rewards and held-out checks."""

    stage: ClassVar[str]
    """Name of the command and of its section in a recipe."""
    agent: ClassVar[Role]
    check: ClassVar[type[HeldOutCheck]]
    """Class of a check's result."""
    parts: ClassVar[LineParts]
    """Parts of a log entry that the progress line shows."""

    def require(self) -> None:
        """Raise SettingsError if a library is missing."""

    def identity(self) -> dict[str, Any]:
        """Return what makes the rewards, as JSON; a training is resumed only with the same."""
        return {**self.rewarders(), **self.settings()[0].model_dump(mode="json")}

    @abstractmethod
    def rewarders(self) -> dict[str, str]:
        """Return the identities of the models that make the rewards, by their role, for the model card."""

    @abstractmethod
    def settings(self) -> tuple[BaseModel, BaseModel]:
        """Return the terms of the reward, and the settings of the calls to the models that make it."""

    @abstractmethod
    def written(self, row: Row) -> str:
        """Return the row as one line of JSON."""

    @abstractmethod
    def shown(self, row: Row, images: Path, prompt_set: PromptSet, pixels: int) -> ShownRow:
        """Return the row as it is measured before a model is loaded.

        Raises:
            SettingsError: The row cannot be used.
        """

    @abstractmethod
    def question(
        self, row: Row, images: Path, shown: Path, prompt_set: PromptSet, pixels: int
    ) -> dict[str, Any]:
        """Return the row in the format of trl's trainer: `prompt`, `images` (paths) and `row`, its JSON.

        Args:
            row: The row.
            images: Folder to which the row's image paths are relative.
            shown: Folder for copies of images that must be changed before they are shown, such as scaled-down
                ones.
            prompt_set: Prompt set of the agent.
            pixels: Largest area of a shown image, in pixels.
        """

    def check_rows(self, rows: Sequence[Row], settings: GrpoTraining) -> list[Row]:
        """Choose the rows of a check from those that can be shown: the first ones.

        Raises:
            SettingsError: The rows are not enough for a check.
        """
        return list(rows[: settings.check_rows])

    @abstractmethod
    def reward(
        self, out: Path, reading: RolloutReading, rollouts: Path, clock: StepClock
    ) -> RolloutReward[Any, Any]:
        """Return the reward of a training in the folder `out`.

        Raises:
            SettingsError: The settings of the reward cannot be used.
        """

    @abstractmethod
    def summarise(
        self, rows: Sequence[Row], answers: Sequence[str], lengths: Sequence[int], prompt_set: PromptSet
    ) -> HeldOutCheck:
        """Return the result of a check of these answers, which are `lengths` tokens long."""

    @abstractmethod
    def longest(self, answers: int) -> float:
        """Return the longest time in seconds that rewards or a check of this many answers can take."""


@dataclass(frozen=True)
class CriticTask(Task[CriticRlRow]):
    """Rewards a critic for its verdicts and for the images generated from its refined prompts."""

    setup: RewardSetup
    stage = "critic-grpo"
    agent = "critic"
    check = Check
    parts = GRPO_PARTS

    def require(self) -> None:
        """Check that `json_repair` is installed if answers are read in the published way."""
        if self.setup.terms.published_quirks:
            require("json_repair")

    def rewarders(self) -> dict[str, str]:
        """Return the identities of the generator and the scorer."""
        return {"generator": self.setup.generator.identity, "scorer": self.setup.scorer.identity}

    def settings(self) -> tuple[BaseModel, BaseModel]:
        """Return the terms of the reward and the settings of the redraws."""
        return self.setup.terms, self.setup.drawing

    def written(self, row: CriticRlRow) -> str:
        """Return the row as JSON."""
        return row.model_dump_json()

    def shown(self, row: CriticRlRow, images: Path, prompt_set: PromptSet, pixels: int) -> ShownRow:
        """Return the row as it is measured before a model is loaded."""
        return shown_of(row, images, prompt_set, pixels)

    def question(
        self, row: CriticRlRow, images: Path, shown: Path, prompt_set: PromptSet, pixels: int
    ) -> dict[str, Any]:
        """Return the row in the format of trl's trainer."""
        return as_question(row, images, shown, prompt_set, pixels)

    def check_rows(self, rows: Sequence[CriticRlRow], settings: GrpoTraining) -> list[CriticRlRow]:
        """Return the rows of a check, half of them right and half wrong images."""
        return check_rows_of(rows, settings)

    def reward(self, out: Path, reading: RolloutReading, rollouts: Path, clock: StepClock) -> CriticReward:
        """Open the redrawer and return the critic's reward."""
        return CriticReward(self.setup.open_redrawer(out), self.setup.terms, reading, rollouts, clock)

    def summarise(
        self,
        rows: Sequence[CriticRlRow],
        answers: Sequence[str],
        lengths: Sequence[int],
        prompt_set: PromptSet,
    ) -> Check:
        """Compare the verdicts with the truth."""
        return summarise(rows, answers, lengths, prompt_set.verdict_first)

    def longest(self, answers: int) -> float:
        """Return the longest time of a reward in seconds, from the deadlines of generator and scorer."""
        return self.setup.drawing.longest(answers)


@dataclass(frozen=True)
class PlannerTask(Task[PlannerRlRow]):
    """Rewards a planner for its plans with `judge`; image paths of the rows are relative to `images`."""

    judge: PlanJudge
    terms: PlanRewardSettings
    judging: JudgingSettings
    images: Path
    stage = "planner-grpo"
    agent = "planner"
    check = PlanCheck
    parts = PLANNER_GRPO_PARTS

    def rewarders(self) -> dict[str, str]:
        """Return the identity of the judge."""
        return {"judge": self.judge.identity}

    def settings(self) -> tuple[BaseModel, BaseModel]:
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

    def reward(self, out: Path, reading: RolloutReading, rollouts: Path, clock: StepClock) -> PlannerReward:
        """Return the planner's reward; answers of a chat judge are cached in `out`."""
        self.judge.keep_in(out / "judgements.sqlite")
        return PlannerReward(PlanJudging(self.judge, self.judging), self.terms, reading, rollouts, clock)

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
