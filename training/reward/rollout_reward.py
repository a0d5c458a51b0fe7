"""A reward over completions as trl's GRPO trainer calls it, whatever is rewarded: answers decoded, measures
logged, a file of every rollout, tokens counted.

Decisions. One function gives the whole reward, because a None in one of several would count as 0. What cannot
be rewarded is None, which leaves the sample out of its group's mean; the parts are logged beside the sum,
under the same names every batch. Answers are decoded here from their tokens: a chat template with a response
parser of its own would hand over an answer without its reasoning. Every rollout is written to a file of its
step, so that what a reward was given for can be read later; a resumed run writes the same file again.
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

from ...backend.errors import TrainingError
from ...backend.files.atomic import write_text
from ...backend.types import Value
from ..trainer.step_clock import StepClock

ROUNDING = 1e-6

Row = TypeVar("Row", bound=BaseModel)


class Rewarded(Value):
    """One answer with its reward, 0..1; `overall` None: a failure, left out of its group."""

    answer: str
    overall: float | None = None
    fault: str = ""


Sample = TypeVar("Sample", bound=Rewarded)


@dataclass(frozen=True)
class RolloutReading:
    """How rollouts are read: where the rows' images lie, how tokens become text, where a verdict is expected
    in an answer, and the training's seed."""

    images: Path
    decode: Callable[[Sequence[int]], str]
    verdict_first: bool = False
    seed: int = 0


class RolloutReward(ABC, Generic[Row, Sample]):
    """Rewards of answers to rows; callable as trl's GRPO trainer calls a reward. `rollouts` is the folder
    for files of what was rewarded, None: none are written."""

    __name__ = "overall"
    row_type: type[Row]

    def __init__(
        self, reading: RolloutReading, rollouts: Path | None = None, clock: StepClock | None = None
    ) -> None:
        self.reading = reading
        self.rollouts = rollouts
        self.clock = clock or StepClock()
        self.tokens = (0, 0)
        """Tokens of the last batch's answers, and of these in answers that are left out of their group."""

    def begin(self, trainer: Any, processor: Any) -> None:
        """The trainer is there, with its model, and its first step has not begun. Nothing, for most."""

    @property
    def problem(self) -> str | None:
        """Why rewards cannot be had for now, such as a judge that is down, and how to mend it; else None."""
        return None

    @property
    def problem_at_end(self) -> str | None:
        """Like `problem`, but asked after the last step, when a few failures are enough to decide."""
        return self.problem

    @property
    def warning(self) -> str | None:
        """What a person should know of the last answers, such as a collapse; else None."""
        return None

    @abstractmethod
    async def judged(
        self, answers: Sequence[str], rows: Sequence[Row]
    ) -> tuple[Sequence[Sample], Mapping[str, float]]:
        """A sample for every answer to the row beside it, and what is logged of the batch (NaN where there is
        nothing to take a share of). Raises SettingsError, Cancelled."""

    async def __call__(
        self,
        completion_ids: Sequence[Sequence[int]],
        row: Sequence[str],
        trainer_state: Any,
        log_metric: Callable[[str, float], None],
        **columns: Any,
    ) -> list[float | None]:
        """The rewards of a batch; `row` is the data row's JSON, once per answer."""
        called = self.clock.now()
        answers = [self.reading.decode(ids) for ids in completion_ids]
        rows = [self.row_type.model_validate_json(one) for one in row]
        samples, measured = await self.judged(answers, rows)
        rewards = [sample.overall for sample in samples]
        for name, value in {**measured, **spread(rewards, row)}.items():
            # One rank's NaN would be everybody's: sums are taken over all ranks, of those that log a name.
            if not math.isnan(value):
                log_metric(name, value)
        if self.rollouts is not None:
            self._write(samples, int(trainer_state.global_step))
        lengths = [len(ids) for ids in completion_ids]
        left_out = sum(length for length, one in zip(lengths, rewards, strict=True) if one is None)
        self.tokens = sum(lengths), left_out
        self.clock.rewarded(called)
        return rewards

    def _write(self, samples: Sequence[Sample], step: int) -> None:
        assert self.rollouts is not None
        lines = [sample.model_dump_json() for sample in samples]
        path = self.rollouts / f"step_{step:06d}.jsonl"
        write_text(path, "\n".join(lines) + "\n", TrainingError, "The rollouts' file", durable=False)


def mean(values: Sequence[float]) -> float:
    """The mean; NaN where there are no values."""
    return sum(values) / len(values) if values else math.nan


def spread(rewards: Sequence[float | None], groups: Sequence[str]) -> dict[str, float]:
    """How far the rewards of a group's answers lie apart (mean standard deviation), and the share of dead
    groups, whose answers all have the same reward and teach nothing. `groups` names each reward's group.

    Counted here because the trainer takes rounding errors for a spread.
    """
    grouped: dict[str, list[float]] = {}
    for reward, group in zip(rewards, groups, strict=True):
        grouped.setdefault(group, []).extend([] if reward is None else [reward])
    deviations = [pstdev(group) for group in grouped.values() if len(group) > 1]
    return {
        "reward/spread": mean(deviations),
        "reward/dead": mean([float(deviation < ROUNDING) for deviation in deviations]),
    }
