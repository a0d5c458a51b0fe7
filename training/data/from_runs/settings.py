"""What a person says of how runs become a critic's training data: the rules of filter.py as settings.

Decision: nothing of the pipeline is imported here, so that the command line can describe these options
without reading a run.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

EXACT = "tinyworld"
"""The reasoning that an oracle writes; only the demo world has one."""


class RunsData(BaseModel):
    """How runs become a critic's training data."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    improved_only: bool = Field(
        default=True,
        description="Keep a step's attempts only if some later one is at least as good as the first.",
    )
    single: bool = Field(default=True, description="Keep steps that took one attempt.")
    cut_at_best: bool = Field(default=True, description="Leave out the attempts after a step's best one.")
    keep_labelled: bool = Field(
        default=True,
        validation_alias=AliasChoices("keep_labelled", "keep_words"),
        serialization_alias="keep_words",
        description="Keep every image that a person accepted or rejected, whatever these rules say.",
    )
    rl_variance: float = Field(
        default=1.0,
        ge=0,
        description="Variance of the overall scores (0..10) of a step's attempts above which they go to RL.",
    )
    rl_share: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Share of the rows that goes to RL, those of the steps whose scores vary most; "
        "it finds the variance.",
    )
    floor: float | None = Field(
        default=None,
        ge=0,
        le=10,
        description="Leave out a step whose best image scores below this (overall, 0..10); empty: none.",
    )
    both: bool = Field(default=False, description="Teach by SFT too what goes to RL.")
    balance: float = Field(
        default=0.5,
        ge=0,
        le=0.5,
        description="Least share of the rarer verdict: the commoner one loses rows that nobody annotated, "
        "the rarer one's are repeated. 0: as it is.",
    )
    balance_by: Literal["both", "repeat", "drop"] = Field(
        default="both",
        description="Balance by repeating the rarer verdict's rows, by dropping the commoner one's, or both.",
    )
    copies: int = Field(
        default=3,
        ge=1,
        le=20,
        description="Times that a row of the rarer verdict stands in critic_sft.json at most.",
    )
    success_at: float | None = Field(
        default=None,
        ge=0,
        le=10,
        description=(
            "Semantics score at which an image counts as right, over the critic's verdict; empty: "
            "scores do not decide."
        ),
    )
    reasoning: Literal["own", "required", "tinyworld"] = Field(
        default="own",
        description="Reasoning of a row: a person's note, else the critic's where its verdict stands, "
        "else none; required leaves rows without any out; tinyworld writes the exact one.",
    )
    held_out_runs: float = Field(
        default=0.2,
        ge=0,
        lt=1,
        description=(
            "Share of the annotated runs that are not trained on; their rows go to critic_sft_held_out.json."
        ),
    )
    held_out_seed: int = Field(default=0, ge=0, description="Seed by which runs are held out.")


def _instead(name: str, default: Any) -> Any:
    """A field of RunsData with another default."""
    field = copy(RunsData.model_fields[name])
    field.default = default
    return field


class FilterData(RunsData):
    """Which chains of a teacher's trajectories are taught: the published filter."""

    floor: float | None = _instead("floor", 3.0)
    rl_share: float | None = _instead("rl_share", 0.1)
    balance_by: Literal["both", "repeat", "drop"] = _instead("balance_by", "repeat")
    copies: int = _instead("copies", 20)
    score_repeats: int = Field(
        default=3, ge=1, le=15, description="Times that a judge is asked about an image; the median counts."
    )
    match_size: bool = Field(
        default=False, description="Scale an image to the size of the one before it for the judge."
    )
