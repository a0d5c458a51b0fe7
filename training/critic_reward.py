"""The critic's reward for a whole batch of answers: one function, because a None in one of several would count as 0.

Decisions. What cannot be drawn or scored is None, which leaves the sample out of its group's mean; the parts are logged
beside the sum, under the same names every batch. Answers are decoded here from their tokens: a chat template with a
response parser of its own would hand over an answer without its reasoning. Every rollout is written to a file of its step,
so that what a reward was given for can be read later; a resumed run writes the same file again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import pstdev
from typing import Any, Literal

from pydantic import Field

from ..backend.pictures import Picture
from ..backend.types import Value
from .grpo_data import CriticRlRow, before_of, seed_of
from .rewards import (
    NEUTRAL,
    RewardWeights,
    accuracy_reward,
    combine,
    format_reward,
    read_answer,
    redraws,
    step_rewards,
)
from .step_clock import StepClock
from .step_rewards import BatchCounts, Outcome, Redraw, StepRewards

LAST_VERDICTS = 256
LEAST_VERDICTS = 64
ROUNDING = 1e-6
LEANING = 0.05
"""Share of the rarer verdict below which a critic is said to lean to the other one."""


class RewardSettings(RewardWeights):
    """Settings of the reward. Defaults are the published arithmetic (FORMATS: rewards), but for failures."""

    redraw: Literal["failed", "refused"] = Field(
        default="failed",
        description="What is redrawn: what failed in truth (published), or also what was refused without need.",
    )
    on_failure: Literal["mask", "neutral"] = Field(
        default="mask",
        description="A redraw that cannot be made or scored: left out of its group, or 0.5 (published).",
    )
    draws: int = Field(
        default=1, ge=1, le=16, description="Redraws of each refined prompt, whose scores are averaged."
    )
    seeds: Literal["own", "row"] = Field(
        default="own",
        description="Seed of a row's redraws: one of its own, or the one its image was drawn with, if it tells that: then "
        "only the prompt differs.",
    )
    published_quirks: bool = Field(
        default=False,
        description="As the published code where it changes numbers: 0.5 on failure, spaces stripped, seed 0.",
    )

    @property
    def masks(self) -> bool:
        """Whether a failure leaves its sample out."""
        return self.on_failure == "mask" and not self.published_quirks


class Sample(Value):
    """One answer with its parts, 0..1 each; `overall` None: a failure, left out of its group."""

    answer: str
    origin_prompt: str
    truth: bool
    verdict: bool | None
    refined_prompt: str = ""
    redrawn: bool = False
    format: float
    accuracy: float
    semantic: float | None = None
    quality: float | None = None
    overall: float | None = None
    fault: str = ""


class CriticReward:
    """Rewards of answers to rows whose images lie below `folder`; callable as trl's GRPO trainer calls a reward."""

    __name__ = "overall"

    def __init__(
        self,
        steps: StepRewards,
        folder: Path,
        settings: RewardSettings,
        decode: Callable[[Sequence[int]], str],
        seed: int = 0,
        rollouts: Path | None = None,
        clock: StepClock | None = None,
        verdict_first: bool = False,
    ) -> None:
        self.steps = steps
        self.clock = clock or StepClock()
        self.folder = folder
        self.settings = settings
        self.decode = decode
        self.seed = seed
        self.rollouts = rollouts
        self.verdict_first = verdict_first
        self.verdicts: deque[tuple[bool | None, bool]] = deque(maxlen=LAST_VERDICTS)
        self._picture = lru_cache(maxsize=512)(Picture.open)

    @property
    def leaning(self) -> str | None:
        """A warning if the last sampled verdicts are nearly all the same although the truth is not, else None."""
        said = [verdict for verdict, _ in self.verdicts if verdict is not None]
        if len(said) < LEAST_VERDICTS:
            return None
        share = sum(said) / len(said)
        truth = sum(truth for _, truth in self.verdicts) / len(self.verdicts)
        if min(share, 1 - share) >= LEANING or min(truth, 1 - truth) < 4 * LEANING:
            return None
        return (
            f"{share:.0%} of the last {len(said)} verdicts are True, but {truth:.0%} of the images are right"
        )

    async def rewards(
        self, answers: Sequence[str], rows: Sequence[CriticRlRow]
    ) -> tuple[list[Sample], BatchCounts]:
        """A sample for every answer to the row beside it. Raises SettingsError (cache), Cancelled."""
        quirks = self.settings.published_quirks
        verdicts = [read_answer(answer, published=quirks) for answer in answers]
        wanted: list[Redraw] = []
        places: list[range] = []
        for verdict, row in zip(verdicts, rows, strict=True):
            start = len(wanted)
            if verdict is not None and self._is_redrawn(row, verdict.success):
                prompt = verdict.refined_prompt if verdict.refined_prompt.strip() else row.prompt_used
                before = before_of(row, self.folder, self._picture)
                for number in range(self.settings.draws):
                    seed = 0 if quirks else self._seed(row, number)
                    wanted.append(Redraw(before, row.origin_prompt, prompt, seed))
            places.append(range(start, len(wanted)))
        outcomes, counts = await self.steps.score_all(wanted)
        samples = []
        for answer, verdict, row, place in zip(answers, verdicts, rows, places, strict=True):
            success = verdict.success if verdict else None
            sample = Sample(
                answer=answer,
                origin_prompt=row.origin_prompt,
                truth=row.evaluation.success,
                verdict=success,
                refined_prompt=verdict.refined_prompt if verdict else "",
                redrawn=bool(place),
                format=format_reward(answer, self.verdict_first),
                accuracy=accuracy_reward(success, row.evaluation.success),
            )
            samples.append(self._with_steps(sample, row, [outcomes[index] for index in place]))
            self.verdicts.append((success, row.evaluation.success))
        return samples, counts

    def _seed(self, row: CriticRlRow, number: int) -> int:
        if self.settings.seeds == "row" and row.seed is not None and number == 0:
            return row.seed
        return seed_of(row, number, self.seed)

    def _is_redrawn(self, row: CriticRlRow, verdict: bool | None) -> bool:
        return self.settings.need_steps and redraws(row.evaluation.success, verdict, self.settings.redraw)

    def _with_steps(self, sample: Sample, row: CriticRlRow, outcomes: Sequence[Outcome]) -> Sample:
        """The sample with its step terms and the sum."""
        scores = [outcome.score for outcome in outcomes if outcome.score is not None]
        fault = next((outcome.fault for outcome in outcomes if outcome.fault), "")
        if outcomes and not scores and self.settings.masks:
            return sample.model_copy(update={"fault": fault})
        pairs = [step_rewards(row.evaluation.score, score) for score in scores]
        semantic = sum(pair[0] for pair in pairs) / len(pairs) if pairs else NEUTRAL
        quality = sum(pair[1] for pair in pairs) / len(pairs) if pairs else NEUTRAL
        overall = combine(
            format=sample.format,
            accuracy=sample.accuracy,
            semantic=semantic,
            quality=quality,
            weights=self.settings,
        )
        parts = {"semantic": semantic, "quality": quality, "overall": overall, "fault": fault}
        return sample.model_copy(update=parts)

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
        answers = [self.decode(ids) for ids in completion_ids]
        samples, counts = await self.rewards(answers, [CriticRlRow.model_validate_json(one) for one in row])
        for name, value in (measures(samples, counts) | spread(samples, row)).items():
            # One rank's NaN would be everybody's: sums are taken over all ranks, of those that log a name.
            if not math.isnan(value):
                log_metric(name, value)
        if self.rollouts is not None:
            self._write(samples, int(trainer_state.global_step))
        self.clock.rewarded(called)
        return [sample.overall for sample in samples]

    def _write(self, samples: Sequence[Sample], step: int) -> None:
        assert self.rollouts is not None
        self.rollouts.mkdir(parents=True, exist_ok=True)
        lines = [sample.model_dump_json() for sample in samples]
        path = self.rollouts / f"step_{step:06d}.jsonl"
        part = path.with_suffix(".part")
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")
        part.replace(path)


def measures(samples: Sequence[Sample], counts: BatchCounts) -> dict[str, float]:
    """What is logged of a batch: means of the parts over the samples that count, verdicts, failures, seconds.

    Shares are 0..1; NaN where there is nothing to take a share of (trl leaves NaN out of its means).
    """
    counted = [sample for sample in samples if sample.overall is not None]
    read = [sample for sample in samples if sample.verdict is not None]
    right = [sample.accuracy for sample in samples if sample.truth]
    wrong = [sample.accuracy for sample in samples if not sample.truth]
    redrawn = [sample for sample in counted if sample.redrawn]
    parts = {
        f"reward/{name}": _mean([getattr(sample, name) for sample in counted])
        for name in ("format", "accuracy", "semantic", "quality", "overall")
    }
    return parts | {
        "reward/semantic_redrawn": _mean([sample.semantic or 0.0 for sample in redrawn]),
        "verdict/true": _mean([float(bool(sample.verdict)) for sample in read]),
        "verdict/truth": _mean([float(sample.truth) for sample in samples]),
        "verdict/true_recall": _mean(right),
        "verdict/false_recall": _mean(wrong),
        "verdict/unread": 1.0 - len(read) / len(samples) if samples else math.nan,
        "redraw/asked": float(counts.asked),
        "redraw/drawn": float(counts.drawn),
        "redraw/served": counts.served if counts.asked else math.nan,
        "redraw/failed": counts.failed / counts.asked if counts.asked else math.nan,
        "redraw/repeated": float(counts.repeated),
        "seconds/draw": counts.draw_seconds,
        "seconds/score": counts.score_seconds,
    }


def spread(samples: Sequence[Sample], groups: Sequence[str]) -> dict[str, float]:
    """How far the rewards of a group's answers lie apart (mean standard deviation), and the share of dead groups, whose
    answers all have the same reward and teach nothing. `groups` names each sample's group.

    Counted here because the trainer takes rounding errors for a spread.
    """
    rewards: dict[str, list[float]] = {}
    for sample, group in zip(samples, groups, strict=True):
        rewards.setdefault(group, []).extend([] if sample.overall is None else [sample.overall])
    deviations = [pstdev(group) for group in rewards.values() if len(group) > 1]
    return {
        "reward/spread": _mean(deviations),
        "reward/dead": _mean([float(deviation < ROUNDING) for deviation in deviations]),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
