"""A critic's rewarded answer with its parts, and the measures of a batch of them.

The same names are logged for every batch, with NaN for a share of nothing, because measures of ranks with
different names would be summed incorrectly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .redraws.batch_counts import BatchCounts
from .rollout_reward import Rewarded, mean


class Sample(Rewarded):
    """An answer with its parts, 0 to 1 each."""

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
    """Return the measures of a batch: mean parts of the samples that count, verdicts, failures, seconds.

    Shares are 0 to 1. A share of nothing is NaN, which trl ignores in its means.
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
