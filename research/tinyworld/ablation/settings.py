"""Settings of the ablation: sizes that let the whole table finish in an afternoon on two processor cores.

All seeds share two checkpoints that stand for a vision-language model (`--start`). Everything else is made
for each seed: data, agents, reinforcement learning, stories. Critics must have something left to learn, so
they get few rows.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from ....backend.core.types.values import DIRECT


class AblationSettings(BaseModel):
    """Sizes of the ablation. The defaults are those of the published table."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)
    """Reports of earlier releases have settings that no longer exist."""

    seeds: int = Field(
        default=5,
        ge=1,
        le=20,
        description="Number of seeds. A folder can be extended by more.",
        json_schema_extra=DIRECT,
    )
    first_seed: int = Field(default=0, ge=0, le=1000, description="First seed, if other seeds run elsewhere.")
    stories: int = Field(
        default=200, ge=1, description="Stories per table row and seed.", json_schema_extra=DIRECT
    )
    untrained_stories: int = Field(
        default=40, ge=1, description="Stories for untrained agents. They are slow, and nearly all fail."
    )
    planner_rows: int = Field(default=20000, ge=16, description="Requests that each planner is trained on.")
    critic_rows: int = Field(default=1200, ge=16, description="Judged images that each critic is trained on.")
    rl_rows: int = Field(default=384, ge=16, description="Judged images for reinforcement learning.")
    rollouts: int = Field(
        default=24, ge=1, description="Rollouts of 16 x 8 answers; each is used for four optimizer steps."
    )
    rl_rate: float = Field(default=1.5e-4, gt=0, description="Learning rate of reinforcement learning.")
    temperature: float = Field(default=1.0, gt=0, le=2, description="Sampling temperature of answers.")
    kl: float = Field(default=0.0, ge=0, description="Weight of the KL divergence from the starting critic.")
    checked: int = Field(
        default=64, ge=2, description="Held-out images for checks during reinforcement learning."
    )
    judged: int = Field(
        default=200, ge=2, description="Images that each critic judges, half of them correct."
    )
    verdict_tokens: int = Field(default=224, ge=16, description="Maximum tokens of a critic's answer.")
    plan_tokens: int = Field(default=640, ge=16, description="Maximum tokens of a planner's answer.")
    workers: int = Field(
        default=2,
        ge=1,
        description="Number of parallel processes, with one thread each.",
        json_schema_extra=DIRECT,
    )

    @property
    def all_seeds(self) -> range:
        """Numbers of the seeds."""
        return range(self.first_seed, self.first_seed + self.seeds)
