"""Settings of the ablation: how much of everything, so that the whole table fits into hours of two processor
cores.

Decision: what all seeds share is one critic that has seen rendered pages only (it stands in for a model that
can see before it is trained to judge); everything else is made anew for each seed: data, both agents,
reinforcement learning, stories.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class AblationSettings(BaseModel):
    """How much of everything. Defaults are those of the shipped table."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    seeds: int = Field(default=3, ge=1, le=20, description="Seeds, from 0 on.")
    stories: int = Field(default=300, ge=1, description="Stories run for each row of the table and seed.")
    untrained_stories: int = Field(
        default=20,
        ge=1,
        description="Stories run by agents that were never trained: slow, and none is right.",
    )
    describe: int = Field(default=9600, ge=0, description="Rows that teach the shared critic to see.")
    rendered: int = Field(
        default=54400, ge=32, description="Rows about rendered pages for the shared critic."
    )
    planner_rows: int = Field(default=40000, ge=32, description="Requests that each planner is trained on.")
    critic_rows: int = Field(default=9000, ge=32, description="Judged pages that each critic is trained on.")
    next_steps: int = Field(
        default=40000,
        ge=32,
        description=(
            "Next steps that the one shared agent is trained on, beside the critic's rows: as many "
            "rows in all as two agents have."
        ),
    )
    next_step_stories: int = Field(
        default=100,
        ge=1,
        description=(
            "Stories whose next steps the one shared agent is asked for after pages that are all right."
        ),
    )
    rl_rows: int = Field(default=960, ge=32, description="Judged pages for reinforcement learning.")
    rollouts: int = Field(default=60, ge=1, description="Rollouts of 16 x 8 answers.")
    rl_rate: float = Field(default=8e-5, gt=0, description="Learning rate of reinforcement learning.")
    temperature: float = Field(default=1.0, gt=0, le=2, description="Temperature of sampled answers.")
    kl: float = Field(
        default=0.0, ge=0, description="Weight of the distance to the critic that reinforcement starts from."
    )
    judged: int = Field(
        default=400, ge=2, description="Pages that each critic is asked about, half of them right."
    )
    failed: int = Field(
        default=200, ge=1, description="Failed attempts whose refined prompts are drawn and compared."
    )
    workers: int = Field(default=2, ge=1, description="Processes at once, one thread each.")
