"""Interface between the GRPO training loop (train.py) and the agents that it trains.

The loop handles rollouts, steps, checkpoints and checks. The task supplies everything that differs between
agents: the question of a row, the reward of an answer and the measures on held-out rows. A new kind of reward
is a new task and leaves the loop unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from ...backend.prompts.prompt_set import PromptSet
from ..data.rows.lengths import ShownRow
from ..gate.held_out import HeldOutCheck
from ..reward.rollout_reward import RolloutReading, RolloutReward
from ..trainer.report.progress_line import LineParts
from ..trainer.step_clock import StepClock
from .settings import GrpoTraining

Row = TypeVar("Row")
Found = TypeVar("Found", bound=HeldOutCheck, covariant=True)


class Task(Protocol[Row, Found]):
    """An agent to train with GRPO: its questions, rewards and held-out checks."""

    stage: str
    """Name of the command and of its section in a recipe."""
    agent: str
    """"critic" or "planner"."""

    @property
    def check(self) -> type[Found]:
        """Class of a check's result."""
        ...

    def identity(self) -> dict[str, Any]:
        """Return the identity of the judge, as JSON; a training is resumed only with the same one."""
        ...

    def summarise(
        self, rows: Sequence[Row], answers: Sequence[str], lengths: Sequence[int], prompt_set: PromptSet
    ) -> Found:
        """Return the result of a check of these answers, which are `lengths` tokens long."""
        ...

    @property
    def parts(self) -> LineParts:
        """Parts of a log entry that the progress line shows."""
        ...

    def require(self) -> None:
        """Raise SettingsError if a library is missing."""
        ...

    def rewarders(self) -> dict[str, str]:
        """Return the identities of the models that make the rewards, by their role, for the model card."""
        ...

    def settings(self) -> Sequence[BaseModel]:
        """Return the settings in addition to those of the training."""
        ...

    def written(self, row: Row) -> str:
        """Return the row as one line of JSON."""
        ...

    def shown(self, row: Row, images: Path, prompt_set: PromptSet, pixels: int) -> ShownRow:
        """Return the row as it is measured before a model is loaded."""
        ...

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
        ...

    def check_rows(self, rows: Sequence[Row], settings: GrpoTraining) -> list[Row]:
        """Choose the rows of a check from those that can be shown.

        Raises:
            SettingsError: The rows are not enough for a check.
        """
        ...

    def reward(
        self, out: Path, reading: RolloutReading, rollouts: Path, clock: StepClock
    ) -> RolloutReward[Any, Any]:
        """Return the reward of a training in the folder `out`.

        Raises:
            SettingsError: The settings of the reward cannot be used.
        """
        ...

    def longest(self, answers: int) -> float:
        """Return the longest time in seconds that rewards or a check of this many answers can take."""
        ...
