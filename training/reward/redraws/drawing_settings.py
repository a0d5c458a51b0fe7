"""How a training's redraws are drawn and scored: how many at once, for how long, and when to stop.

Decision: one model for every command that redraws (critic-grpo, pairs from journals, the own critic), so that
a limit means the same wherever it is given.
"""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, Field


class DrawingSettings(BaseModel):
    """Settings of drawing and scoring during training."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    draw_batch: int = Field(
        default=16, ge=1, description="Images in one call, for generators that can draw many."
    )
    parallel_draws: int = Field(
        default=1,
        ge=1,
        description="Draws at once; services are given at least as many as keep all of them at work.",
    )
    parallel_scores: int = Field(
        default=1, ge=1, description="Scorings at once; above 1 for judges on a server."
    )
    draw_seconds: float = Field(default=120.0, gt=0, description="Longest time for drawing one image.")
    score_seconds: float = Field(default=120.0, gt=0, description="Longest time for scoring one image.")
    tries: int = Field(default=2, ge=1, le=10, description="Tries of one draw or score that fails.")
    take_turns: bool = Field(
        default=False,
        description="For one card: the trained model, the generator and the judge take turns on it, and wait "
        "in main memory meanwhile.",
    )
    max_draws: int | None = Field(
        default=None,
        ge=1,
        description="Draws of a process past which training stops, after the batch; failed tries count too.",
    )
    max_failures: float = Field(
        default=0.3, ge=0, le=1, description="Share of failed redraws past which training stops."
    )

    def longest(self, redraws: int) -> float:
        """Seconds after which so many redraws are drawn and scored or given up. What fails in a batch is
        drawn once more by itself."""
        batch = min(self.draw_batch, max(1, redraws))
        first = math.ceil(math.ceil(redraws / batch) / self.parallel_draws) * batch
        draws = first + math.ceil(redraws / self.parallel_draws) * self.tries
        scores = math.ceil(redraws / self.parallel_scores) * self.tries
        return draws * self.draw_seconds + scores * self.score_seconds
