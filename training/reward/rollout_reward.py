"""Base class of rewards in the form that trl's GRPO trainer calls: decodes answers and logs measures.

One function returns the whole reward, because a None in one of several reward functions would count as 0. A
reward that cannot be computed is None, which leaves the sample out of its group; the parts are logged in
addition to the total, under the same names in every batch. Answers are decoded from their tokens here: a chat
template with its own response parser would pass an answer without its reasoning. Every rollout is written to
a file of its step, so that rewards can be inspected later; a resumed run writes the same file again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import pstdev
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from ...backend.core.errors import TrainingError
from ...backend.core.files.atomic import write_text
from ...backend.core.types import Value

ROUNDING = 1e-6

Row = TypeVar("Row", bound=BaseModel)


class Rewarded(Value):
    """An answer with its reward, 0 to 1, or None if it failed and is left out of its group."""

    answer: str
    overall: float | None = None
    fault: str = ""


Sample = TypeVar("Sample", bound=Rewarded)


@dataclass(frozen=True)
class RolloutReading:
    """How rollouts are read.

    Attributes:
        images: Folder to which the rows' image paths are relative.
        decode: Decodes token ids, `(tokens,)`.
        verdict_first: Whether the verdict comes before the reasoning in an answer.
        seed: Seed of the training.
    """

    images: Path
    decode: Callable[[Sequence[int]], str]
    verdict_first: bool = False
    seed: int = 0


class RolloutReward(ABC, Generic[Row, Sample]):
    """Rewards answers to rows; callable as a reward function of trl's GRPO trainer.

    `rollouts` is the folder for files of the rewarded answers; with None none are written.
    """

    __name__ = "overall"
    row_type: type[Row]

    def __init__(self, reading: RolloutReading, rollouts: Path | None = None) -> None:
        self.reading = reading
        self.rollouts = rollouts
        self.left_out: list[bool] = []
        """Whether each answer of the last batch is left out of its group."""

    def begin(self, trainer: Any, processor: Any) -> None:
        """Prepare for training, after the trainer and model were created and before the first step."""

    @abstractmethod
    def problem(self, at_end: bool = False) -> str | None:
        """Return why rewards cannot be computed at present, else None.

        `at_end`, after the last step, a few failures are enough.
        """

    @property
    def warning(self) -> str | None:
        """Warning about the last answers, such as a collapse, else None."""
        return None

    @abstractmethod
    async def judged(
        self, answers: Sequence[str], rows: Sequence[Row]
    ) -> tuple[Sequence[Sample], Mapping[str, float]]:
        """Return a sample for each answer to the row at the same index, and the measures of the batch.

        A share of nothing is NaN.

        Raises:
            SettingsError: A cache cannot be used.
            Cancelled: The run was cancelled.
        """

    async def __call__(
        self,
        completion_ids: Sequence[Sequence[int]],
        row: Sequence[str],
        trainer_state: Any,
        log_metric: Callable[[str, float], None],
        **columns: Any,
    ) -> list[float | None]:
        """Return the rewards of a batch.

        Args:
            completion_ids: Token ids of each answer.
            row: JSON of each answer's row.
            trainer_state: State of the trainer.
            log_metric: Logs a measure.
            columns: Other columns of trl; not used.

        Returns:
            The reward of each answer, 0 to 1, or None to leave it out of its group.
        """
        answers = [self.reading.decode(ids) for ids in completion_ids]
        rows = [self.row_type.model_validate_json(one) for one in row]
        samples, measured = await self.judged(answers, rows)
        rewards = [sample.overall for sample in samples]
        for name, value in {**measured, **spread(rewards, row)}.items():
            # NaN of one rank would spread to all: measures are summed over the ranks that log a name.
            if not math.isnan(value):
                log_metric(name, value)
        if self.rollouts is not None:
            self._write(samples, int(trainer_state.global_step))
        self.left_out = [reward is None for reward in rewards]
        return rewards

    def _write(self, samples: Sequence[Sample], step: int) -> None:
        assert self.rollouts is not None
        lines = [sample.model_dump_json() for sample in samples]
        path = self.rollouts / f"step_{step:06d}.jsonl"
        write_text(path, "\n".join(lines) + "\n", TrainingError, "The rollout file", durable=False)


def mean(values: Sequence[float]) -> float:
    """Return the mean, or NaN without values."""
    return sum(values) / len(values) if values else math.nan


def spread(rewards: Sequence[float | None], groups: Sequence[str]) -> dict[str, float]:
    """Return the mean standard deviation of rewards within a group, and the share of dead groups.

    In a dead group all answers have the same reward, so nothing is learned from it. They are counted here
    because the trainer mistakes rounding errors for differences.

    Args:
        rewards: Reward of each answer.
        groups: Name of each answer's group.
    """
    grouped: dict[str, list[float]] = {}
    for reward, group in zip(rewards, groups, strict=True):
        grouped.setdefault(group, []).extend([] if reward is None else [reward])
    deviations = [pstdev(group) for group in grouped.values() if len(group) > 1]
    return {
        "reward/spread": mean(deviations),
        "reward/dead": mean([float(deviation < ROUNDING) for deviation in deviations]),
    }
