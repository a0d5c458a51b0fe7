"""What drawing and scoring one batch took, as counters: they are logged with every step.

Decision: they are counted where the work is done and passed along, so that no counter is shared by batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class BatchCounts:
    """Counters of one batch: redraws asked for, images drawn and scored anew, redraws without an image, all
    that failed, tries repeated; seconds."""

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
        """Share of the redraws whose image was not drawn for them (cache, or an equal request)."""
        return 1.0 - (self.drawn + self.not_drawn) / self.asked if self.asked else 0.0
