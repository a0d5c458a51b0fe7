"""Reward of a critic for a batch of answers, from their verdicts and from redraws of refined prompts.

All redraws of a batch are requested at once, so that identical ones are generated once and services are kept
busy. An image that cannot be generated or scored is left out of its group or counts as neutral, according to
the settings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from ...backend.generators import Generator
from ...backend.pictures import Picture
from ...backend.scorers import Scorer
from ..content_cache import ContentCache
from ..data.rows.rl import CriticRlRow, before_of, row_redraw_seed
from ..trainer.step_clock import StepClock
from .published import read_published
from .redraws.batch_counts import BatchCounts
from .redraws.drawing_settings import DrawingSettings
from .redraws.redrawer import Outcome, Redraw, Redrawer
from .redraws.turns import Card, begin_rewards
from .rollout_reward import RolloutReading, RolloutReward
from .samples import Sample, measures
from .terms import (
    NEUTRAL,
    RewardWeights,
    accuracy_reward,
    combine,
    format_reward,
    read_answer,
    redraws,
    step_rewards,
)

LAST_VERDICTS = 256
MIN_VERDICTS = 64
LEANING = 0.05
"""Share of the rarer verdict below which a critic is reported as collapsing to the other one."""


class RewardSettings(RewardWeights):
    """Settings of the reward. Its terms are as published; answers are parsed as in the running system."""

    redraw: Literal["failed", "refused"] = Field(
        default="failed",
        description="Images to redraw: only those that are wrong in truth (failed, published), or also right "
        "ones that the critic rejected (refused).",
    )
    on_failure: Literal["mask", "neutral"] = Field(
        default="mask",
        description="If a redraw fails: leave the answer out of its group (mask), or count its step terms as "
        "0.5 (neutral, published).",
    )
    draws: int = Field(
        default=1,
        ge=1,
        le=16,
        description="Redraws of each refined prompt, with different seeds. Their scores are averaged.",
    )
    seeds: Literal["own", "row"] = Field(
        default="own",
        description="Seed of the redraws: derived from the row (own), or the seed of the original image if "
        "the row has it (row), so that only the prompt differs.",
    )
    published_quirks: bool = Field(
        default=False,
        description="Use the published reward: its parsing of answers, its prompts for redraws, neutral "
        "failures and seed 0. Overrides --redraw, --on-failure and --seeds.",
    )

    @property
    def masks(self) -> bool:
        """Whether a failed redraw leaves its answer out of the group."""
        return self.on_failure == "mask" and not self.published_quirks


class Reading(NamedTuple):
    """Parts of an answer that matter for the reward.

    `verdict` is None if it cannot be parsed; `drawn` is the prompt for the redraw, None for no redraw. With
    `worthless` the reward is 0 regardless of the terms.
    """

    verdict: bool | None
    refined: str
    drawn: str | None
    format: float
    accuracy: float
    fault: str = ""
    worthless: bool = False


def _read_as_published(answer: str, row: CriticRlRow) -> Reading:
    found = read_published(answer)
    if found is None:
        return Reading(None, "", None, 0.0, 0.0, "the published code fails on this answer", worthless=True)
    verdict = found.verdict if isinstance(found.verdict, bool) else None
    accuracy = found.accuracy(row.evaluation.success)
    if not isinstance(found.refined, str):
        return Reading(verdict, "", None, found.form, accuracy, "the refined prompt is not a text")
    drawn = None if row.evaluation.success else found.refined or row.rewritten_prompt
    return Reading(verdict, found.refined, drawn, found.form, accuracy)


@dataclass(frozen=True)
class RewardSetup:
    """Source of the rewards: generator, scorer, weights of the terms, and settings of the calls.

    `cache` is the file of generated and scored images (None: in the training's folder); `redrawer` is the
    class that generates and scores; `card` is the GPU that models share, with `take_turns`.
    """

    generator: Generator
    scorer: Scorer
    terms: RewardSettings
    drawing: DrawingSettings
    cache: Path | None = None
    redrawer: type[Redrawer] = Redrawer
    card: Card | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.drawing.take_turns:
            object.__setattr__(self, "card", Card(self.generator, self.scorer))

    def open_redrawer(self, out: Path) -> Redrawer:
        """Return the redrawer of a training in the folder `out`.

        Raises:
            SettingsError: The cache cannot be used.
        """
        cache = ContentCache(self.cache or out / "rewards.sqlite")
        return self.redrawer(self.generator, self.scorer, cache, self.drawing, self.card)


class CriticReward(RolloutReward[CriticRlRow, Sample]):
    """Rewards the answers of a critic."""

    row_type = CriticRlRow

    def __init__(
        self,
        redrawer: Redrawer,
        settings: RewardSettings,
        reading: RolloutReading,
        rollouts: Path | None = None,
        clock: StepClock | None = None,
    ) -> None:
        super().__init__(reading, rollouts, clock)
        self.redrawer = redrawer
        self.settings = settings
        self.verdicts: deque[tuple[bool | None, bool]] = deque(maxlen=LAST_VERDICTS)
        self._picture = lru_cache(maxsize=512)(Picture.open)

    def begin(self, trainer: Any, processor: Any) -> None:
        """Prepare for training: use the trained model as a judge if set, and let it share the GPU.

        Raises:
            SettingsError: The model is sharded over several devices, which judge and sharing do not support.
        """
        begin_rewards(self.redrawer.scorer, self.redrawer.card, trainer, processor)

    @property
    def problem(self) -> str | None:
        """Why training must pause because too many redraws fail, else None."""
        return self.redrawer.problem

    @property
    def problem_at_end(self) -> str | None:
        """Like `problem`, after the last redraw, when a few failures are enough."""
        return self.redrawer.problem_at_end

    @property
    def warning(self) -> str | None:
        """Warning that the critic is collapsing to one verdict, else None."""
        leaning = self.leaning
        return None if leaning is None else f"the critic is collapsing: {leaning}"

    async def judged(
        self, answers: Sequence[str], rows: Sequence[CriticRlRow]
    ) -> tuple[list[Sample], dict[str, float]]:
        """Return a sample for each answer to the row at the same index, and the measures of the batch."""
        samples, counts = await self.rewards(answers, rows)
        return samples, measures(samples, counts)

    @property
    def leaning(self) -> str | None:
        """Description of recent verdicts if nearly all are the same and the truth is not, else None."""
        said = [verdict for verdict, _ in self.verdicts if verdict is not None]
        if len(said) < MIN_VERDICTS:
            return None
        share = sum(said) / len(said)
        truth = sum(truth for _, truth in self.verdicts) / len(self.verdicts)
        if min(share, 1 - share) >= LEANING or min(truth, 1 - truth) < 4 * LEANING:
            return None
        return f"it accepts {share:.0%} of the last {len(said)} images, but {truth:.0%} are right"

    async def rewards(
        self, answers: Sequence[str], rows: Sequence[CriticRlRow]
    ) -> tuple[list[Sample], BatchCounts]:
        """Return a sample for each answer to the row at the same index, and the counts of the batch.

        Raises:
            SettingsError: The cache cannot be used.
            Cancelled: The run was cancelled.
        """
        readings = [self._read(answer, row) for answer, row in zip(answers, rows, strict=True)]
        wanted: list[Redraw] = []
        places: list[range] = []
        for reading, row in zip(readings, rows, strict=True):
            start = len(wanted)
            if reading.drawn is not None and self.settings.need_steps:
                before = before_of(row, self.reading.images, self._picture)
                for number in range(self.settings.draws):
                    seed = self._seed(row, number)
                    wanted.append(Redraw(before, row.origin_prompt, reading.drawn, seed))
            places.append(range(start, len(wanted)))
        outcomes, counts = await self.redrawer.score_all(wanted)
        samples = []
        for answer, reading, row, place in zip(answers, readings, rows, places, strict=True):
            sample = Sample(
                answer=answer,
                origin_prompt=row.origin_prompt,
                truth=row.evaluation.success,
                verdict=reading.verdict,
                refined_prompt=reading.refined,
                redrawn=bool(place),
                format=reading.format,
                accuracy=reading.accuracy,
                fault=reading.fault,
            )
            if reading.worthless:
                sample = sample.model_copy(update={"semantic": 0.0, "quality": 0.0, "overall": 0.0})
            else:
                sample = self._with_steps(sample, row, [outcomes[index] for index in place])
            samples.append(sample)
            self.verdicts.append((reading.verdict, row.evaluation.success))
        return samples, counts

    def _read(self, answer: str, row: CriticRlRow) -> Reading:
        truth = row.evaluation.success
        if self.settings.published_quirks:
            return _read_as_published(answer, row)
        verdict = read_answer(answer)
        success = verdict.success if verdict else None
        refined = verdict.refined_prompt if verdict else ""
        prompt = refined if refined.strip() else row.prompt_used
        return Reading(
            success,
            refined,
            prompt if redraws(truth, success, self.settings.redraw) else None,
            format_reward(answer, self.reading.verdict_first),
            accuracy_reward(success, truth),
        )

    def _seed(self, row: CriticRlRow, number: int) -> int:
        if self.settings.published_quirks:
            return 0
        if self.settings.seeds == "row" and row.seed is not None and number == 0:
            return row.seed
        return row_redraw_seed(row, number, self.reading.seed)

    def _with_steps(self, sample: Sample, row: CriticRlRow, outcomes: Sequence[Outcome]) -> Sample:
        """Return the sample with its step terms and the total reward."""
        scores = [outcome.score for outcome in outcomes if outcome.score is not None]
        fault = next((outcome.fault for outcome in outcomes if outcome.fault), sample.fault)
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
