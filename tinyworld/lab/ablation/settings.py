"""Settings of the ablation: how much of everything, so that the whole table fits into an afternoon of two
processor cores.

Decisions. What all seeds share is what stands for a vision-language model that everybody starts from: one
that reads and sees, and one that has judged rendered pages and planned single sentences besides. Everything
else is made anew for each seed: data, agents, reinforcement learning, stories. Critics are to have something
left to learn: few rows, and a start that is stopped where it judges real pages no better than `novice_right`.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class AblationSettings(BaseModel):
    """How much of everything. Defaults are those of the table."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    seeds: int = Field(default=5, ge=1, le=20, description="How many seeds; a folder may be given more.")
    first_seed: int = Field(
        default=0, ge=0, le=1000, description="The first of them, where others are run elsewhere."
    )
    stories: int = Field(default=200, ge=1, description="Stories run for each row of the table and seed.")
    untrained_stories: int = Field(
        default=40, ge=1, description="Stories run by untrained agents: slow, and hardly one is right."
    )
    described: int = Field(default=24000, ge=16, description="Pairs of pages that all agents learn to see.")
    copied: int = Field(
        default=16000, ge=16, description="Short lists of words that all agents learn to repeat then."
    )
    repeated: int = Field(
        default=12000,
        ge=16,
        description="Requests of a round that they learn to repeat after that, among longer lists and pages.",
    )
    base_rounds: int = Field(default=6, ge=1, le=100, description="Such rounds at most.")
    base_right: float = Field(
        default=0.95,
        ge=0,
        le=1,
        description="Share of new requests repeated word for word after which no further round follows.",
    )
    novice_rows: int = Field(
        default=4000, ge=16, description="Rows of a round of verdicts on rendered pages and single sentences."
    )
    novice_rounds: int = Field(default=24, ge=1, le=100, description="Such rounds at most.")
    novice_right: float = Field(
        default=0.8,
        ge=0,
        le=1,
        description="Share of right verdicts on real pages after which no further round follows.",
    )
    novice_pages: int = Field(default=200, ge=2, description="Real pages that this is seen by.")
    planner_rows: int = Field(default=20000, ge=16, description="Requests that each planner is trained on.")
    critic_rows: int = Field(default=1200, ge=16, description="Judged pages that each critic is trained on.")
    next_steps: int = Field(
        default=10000,
        ge=16,
        description="Next steps that the one agent learns, beside the planner's and the critic's rows.",
    )
    next_step_stories: int = Field(
        default=40,
        ge=1,
        description="Stories whose next steps the one agent is asked for after pages that are all right.",
    )
    rl_rows: int = Field(default=384, ge=16, description="Judged pages for reinforcement learning.")
    rollouts: int = Field(
        default=24, ge=1, description="Rollouts of 16 x 8 answers, of each of which four steps are made."
    )
    rl_rate: float = Field(default=1.5e-4, gt=0, description="Learning rate of reinforcement learning.")
    temperature: float = Field(default=1.0, gt=0, le=2, description="Temperature of sampled answers.")
    kl: float = Field(
        default=0.0, ge=0, description="Weight of the distance to the critic that reinforcement starts from."
    )
    checked: int = Field(default=64, ge=2, description="Held-out pages of reinforcement's own checks.")
    judged: int = Field(
        default=200, ge=2, description="Pages that each critic is asked about, half of them right."
    )
    failed: int = Field(
        default=100, ge=1, description="Failed attempts whose refined prompts are drawn and compared."
    )
    verdict_tokens: int = Field(default=224, ge=16, description="Longest answer of a critic, in tokens.")
    plan_tokens: int = Field(default=640, ge=16, description="Longest answer of a planner, in tokens.")
    teacher_seeds: int = Field(
        default=1,
        ge=0,
        le=20,
        description="Seeds whose full SFT and full RL are done with a careful and a careless teacher, too.",
    )
    start: Path | None = Field(
        default=None,
        description="Folder with `base` and `novice`, the checkpoints that everything starts from; empty: "
        "they are trained first.",
    )
    workers: int = Field(default=2, ge=1, description="Processes at once, one thread each.")

    @property
    def all_seeds(self) -> range:
        """The seeds' numbers."""
        return range(self.first_seed, self.first_seed + self.seeds)
