"""Counters of the generation and scoring of one batch, which are logged with every step.

They are counted where the work is done and passed along, so that batches do not share counters.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class BatchCounts:
    """Counters of one batch.

    Attributes:
        asked: Requested redraws.
        drawn: Generated images.
        not_drawn: Redraws without an image.
        scored: Scored images.
        failed: Failed redraws.
        repeated: Retries.
        draw_seconds: Seconds of generation, summed over calls.
        score_seconds: Seconds of scoring, summed over calls.
        seconds: Wall-clock seconds.
        faults: Reasons of the failures.
    """

    asked: int = 0
    drawn: int = 0
    not_drawn: int = 0
    scored: int = 0
    failed: int = 0
    repeated: int = 0
    draw_seconds: float = 0.0
    score_seconds: float = 0.0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    @property
    def served(self) -> float:
        """Share of the redraws whose image came from the cache or an identical request."""
        return 1.0 - (self.drawn + self.not_drawn) / self.asked if self.asked else 0.0
