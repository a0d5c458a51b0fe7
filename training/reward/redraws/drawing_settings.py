"""Settings of how a training's redraws are generated and scored: parallel calls, timeouts, limits."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, Field


class DrawingSettings(BaseModel):
    """Settings of generating and scoring images during training."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    draw_batch: int = Field(
        default=16, ge=1, description="Images per call, for generators that support batches."
    )
    parallel_draws: int = Field(
        default=1,
        ge=1,
        description="Images generated at the same time. With several services the value is raised to use all "
        "of them.",
    )
    draw_seconds: float = Field(
        default=120.0, gt=0, description="Timeout for generating one image, in seconds."
    )
    take_turns: bool = Field(
        default=False,
        description="Share one GPU: trained model, generator and judge use it in turns and wait in RAM in "
        "between.",
    )
    max_draws: int | None = Field(
        default=None,
        ge=1,
        description="Training stops, after the current batch, when a process has requested this many images, "
        "including failed attempts. Default: no limit.",
    )
    parallel_scores: int = Field(
        default=1,
        ge=1,
        description="Images scored at the same time. Use more than 1 for a judge on a server.",
    )
    score_seconds: float = Field(
        default=120.0, gt=0, description="Timeout for scoring one image, in seconds."
    )
    tries: int = Field(
        default=2, ge=1, le=10, description="Attempts to generate or score an image, including the first."
    )
    max_failures: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="Training stops if more than this share of the recent redraws failed.",
    )

    def longest(self, redraws: int) -> float:
        """Return the seconds after which this many redraws are generated and scored, or have failed.

        Images of a failed batch are generated once more one by one.
        """
        batch = min(self.draw_batch, max(1, redraws))
        first = math.ceil(math.ceil(redraws / batch) / self.parallel_draws) * batch
        draws = first + math.ceil(redraws / self.parallel_draws) * self.tries
        scores = math.ceil(redraws / self.parallel_scores) * self.tries
        return draws * self.draw_seconds + scores * self.score_seconds
