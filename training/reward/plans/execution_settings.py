"""Settings of executing plans with a generator (execution.py)."""

from __future__ import annotations

from pydantic import Field

from ..redraws.drawing_settings import DrawingSettings, GeneratingSettings
from .judging import JudgingSettings


class ExecutionSettings(GeneratingSettings):
    """Settings of executing plans with a generator."""

    executed_weight: float = Field(
        default=0.6,
        gt=0,
        le=10,
        description="Weight within the content of the images of the executed steps. The other weights of the "
        "content stay as they are, and the content is the weighted mean.",
    )
    executed_steps: int = Field(
        default=8,
        ge=1,
        le=100,
        description="Steps of a plan that are executed, from its first. Later ones are not counted.",
    )
    parallel_image_scores: int = Field(
        default=1,
        ge=1,
        description="Images scored at the same time. Use more than 1 for a scorer on a server.",
    )

    def drawing(self, judging: JudgingSettings) -> DrawingSettings:
        """Return the settings of generating and scoring. Timeout and attempts of a score are the judge's."""
        given = {name: getattr(self, name) for name in GeneratingSettings.model_fields}
        return DrawingSettings(
            **given,
            parallel_scores=self.parallel_image_scores,
            score_seconds=judging.score_seconds,
            tries=judging.tries,
            max_failures=judging.max_failures,
        )
