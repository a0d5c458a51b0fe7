"""What is learned by reinforcement: the seam between the one engine (train.py) and the agents that it trains.

Decision: the engine knows rollouts, steps, checkpoints and checks, and asks its task for whatever differs
between agents: how a row is asked, what an answer is worth, what is measured on held-out rows. A further kind
of reward is a further task, and nothing in the engine changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel

from ...backend.prompts import PromptSet
from ..data.rows.lengths import ShownRow
from ..gate.held_out import Found
from ..gate.monitored_run import MonitoredTask, Row
from ..reward.rollout_reward import RolloutReading, RolloutReward
from ..trainer.report.html_report import Answered
from ..trainer.report.progress_line import LineParts
from ..trainer.step_clock import StepClock
from .settings import GrpoTraining


class Task(MonitoredTask[Row, Found], Protocol[Row, Found]):
    """An agent's reinforcement: rows in, rewards and held-out checks out."""

    parts: LineParts
    """What is shown of a log entry while it trains."""

    def require(self) -> None:
        """Raise SettingsError for a library that is missing."""
        ...

    def rewarders(self) -> dict[str, str]:
        """Who makes the rewards, by what they do, for the end page."""
        ...

    def settings(self) -> Sequence[BaseModel]:
        """The settings beside the training's own."""
        ...

    def written(self, row: Row) -> str:
        """The row as one line of JSON."""
        ...

    def shown(self, row: Row, images: Path, prompt_set: PromptSet, pixels: int) -> ShownRow:
        """The row as it is measured, before a model is loaded."""
        ...

    def question(
        self, row: Row, images: Path, shown: Path, prompt_set: PromptSet, pixels: int
    ) -> dict[str, Any]:
        """The row as trl's trainer wants it: `prompt`, `images` (paths) and `row`, its JSON. `shown` is a
        folder for copies of images that are not shown as they are."""
        ...

    def check_rows(self, rows: Sequence[Row], settings: GrpoTraining) -> list[Row]:
        """The rows of a check among those that can be shown; raises SettingsError if they cannot make
        one."""
        ...

    def reward(
        self, out: Path, reading: RolloutReading, rollouts: Path, clock: StepClock
    ) -> RolloutReward[Any, Any]:
        """The reward of a training in the folder `out`; raises SettingsError."""
        ...

    def longest(self, answers: int) -> float:
        """Seconds after which the rewards, or a check, of so many answers have ended, by the deadlines of
        their calls."""
        ...

    def answered(self, row: Row, question: dict[str, Any], before: str, after: str) -> Answered:
        """A held-out row with its first and last answer, for the end page."""
        ...
