"""The end page's curves and answers of a critic's reinforcement learning, from its checks and its log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...backend.pictures import Picture
from ..evaluation.held_out import CheckLog
from ..rows.rl import CriticRlRow
from ..trainer.html_report import Answered


def held_out_curves(checks: CheckLog) -> dict[str, list[tuple[float, float]]]:
    """The held-out measures over steps."""
    names = {
        "accuracy": "accuracy",
        "right images": "true_recall",
        "wrong images": "false_recall",
        "says true": "says_true",
        "format": "format",
    }
    measured = {
        name: [(float(step), getattr(check, field)) for step, check in checks.all.items()]
        for name, field in names.items()
    }
    return {name: [point for point in curve if point[1] is not None] for name, curve in measured.items()}


def answered(
    rows: Sequence[CriticRlRow], asked: Sequence[dict[str, Any]], checks: CheckLog
) -> list[Answered]:
    """The first held-out rows with the answers of the first check and of the last."""
    every = list(checks.all.values())
    if not every:
        return []
    return [
        Answered(
            question=f"{row.origin_prompt} (drawn with: {row.prompt_used})",
            images=tuple(Picture.open(path) for path in one["images"]),
            truth=f"in truth {'right' if row.evaluation.success else 'wrong'}",
            before=before,
            after=after,
        )
        for row, one, before, after in zip(rows, asked, every[0].answers, every[-1].answers, strict=False)
    ]
