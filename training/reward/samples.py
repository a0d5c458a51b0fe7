"""A critic's rewarded answer with its parts, and what is said of a batch of them: means of the parts,
verdicts, failures.

Decision: the same names are logged for every batch, NaN where there is nothing to take a share of, because
ranks that log other names would be added up wrongly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .redraws.batch_counts import BatchCounts
from .rollout_reward import Rewarded, mean


class Sample(Rewarded):
    """One answer with its parts, 0..1 each."""

    origin_prompt: str
    truth: bool
    verdict: bool | None
    refined_prompt: str = ""
    redrawn: bool = False
    format: float
    accuracy: float
    semantic: float | None = None
    quality: float | None = None


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
        f"reward/{name}": mean([getattr(sample, name) for sample in counted])
        for name in ("format", "accuracy", "semantic", "quality", "overall")
    }
    return parts | {
        "reward/semantic_redrawn": mean([sample.semantic or 0.0 for sample in redrawn]),
        "verdict/true": mean([float(bool(sample.verdict)) for sample in read]),
        "verdict/truth": mean([float(sample.truth) for sample in samples]),
        "verdict/true_recall": mean(right),
        "verdict/false_recall": mean(wrong),
        "verdict/unread": 1.0 - len(read) / len(samples) if samples else math.nan,
        "redraw/asked": float(counts.asked),
        "redraw/drawn": float(counts.drawn),
        "redraw/served": counts.served if counts.asked else math.nan,
        "redraw/failed": counts.failed / counts.asked if counts.asked else math.nan,
        "redraw/repeated": float(counts.repeated),
        "seconds/draw": counts.draw_seconds,
        "seconds/score": counts.score_seconds,
    }
