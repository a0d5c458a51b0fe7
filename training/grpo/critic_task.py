"""GRPO task of the critic: each row shows two images; a refined prompt is rewarded for its redrawn image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ...backend.machine.libraries import require
from ...backend.prompts.prompt_set import PromptSet
from ..data.rows.lengths import ShownRow
from ..data.rows.rl import CriticRlRow, as_question, shown_of
from ..gate.held_out import Check, summarise
from ..reward.critic_reward import CriticReward, RewardSetup
from ..reward.rollout_reward import RolloutReading
from ..trainer.report.progress_line import GRPO_PARTS
from ..trainer.step_clock import StepClock
from .settings import GrpoTraining, check_rows_of


@dataclass(frozen=True)
class CriticTask:
    """Rewards a critic for its verdicts and for the images generated from its refined prompts."""

    setup: RewardSetup
    stage = "critic-grpo"
    agent = "critic"
    check = Check
    parts = GRPO_PARTS

    def require(self) -> None:
        """Check the settings of the reward.

        Raises:
            SettingsError: `json_repair` is needed and missing (published way of reading answers).
        """
        if self.setup.terms.published_quirks:
            require("json_repair")

    def identity(self) -> dict[str, Any]:
        """Return the generator, the scorer and the terms of the reward."""
        return {**self.rewarders(), **self.setup.terms.model_dump(mode="json")}

    def rewarders(self) -> dict[str, str]:
        """Return the identities of the generator and the scorer."""
        return {"generator": self.setup.generator.identity, "scorer": self.setup.scorer.identity}

    def settings(self) -> Sequence[BaseModel]:
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
        redrawer = self.setup.open_redrawer(out)
        return CriticReward(redrawer, self.setup.terms, reading, rollouts, clock)

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
