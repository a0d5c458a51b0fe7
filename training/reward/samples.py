"""A rewarded answer with its parts, and what is said of a batch of them: means of the parts, verdicts,
failures, spread.

Decision: the same names are logged for every batch, NaN where there is nothing to take a share of, because
ranks that log other names would be added up wrongly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import pstdev

from ...backend.types import Value
from .batch_counts import BatchCounts

ROUNDING = 1e-6


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
    """How far the rewards of a group's answers lie apart (mean standard deviation), and the share of dead
    groups, whose answers all have the same reward and teach nothing. `groups` names each sample's group.

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
