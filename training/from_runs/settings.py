"""Settings of the conversion of runs to training data of a critic: the rules of filter.py.

Nothing of the conversion is imported here, so that the command line can show these options quickly.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

EXACT = "tinyworld"
"""Name of the exact reasoning that an oracle writes; only the tiny world has one."""


class RunsData(BaseModel):
    """Settings of the conversion of runs to training data of a critic."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    improved_only: bool = Field(
        default=True, description="Use a step only if a later attempt is at least as good as the first."
    )
    single: bool = Field(default=True, description="Use steps with only one attempt.")
    cut_at_best: bool = Field(default=True, description="Leave out attempts after the step's best one.")
    rl_variance: float = Field(
        default=1.0,
        ge=0,
        description="Send steps to RL whose scores (0-10) have a higher variance.",
    )
    rl_share: float | None = Field(
        default=None, ge=0, le=1, description="Share of the rows for RL. Replaces rl_variance."
    )
    floor: float | None = Field(
        default=None, ge=0, le=10, description="Leave out steps whose best image has a lower score (0-10)."
    )
    both: bool = Field(default=False, description="Also use the rows sent to RL for SFT.")
    balance: float = Field(
        default=0.5, ge=0, le=0.5, description="Minimum share of the rarer verdict. 0: no balancing."
    )
    balance_by: Literal["both", "repeat", "drop"] = Field(
        default="both",
        description="Balance by repeating rows, by dropping rows, or both.",
    )
    copies: int = Field(
        default=3, ge=1, le=20, description="Maximum number of copies of a row of the rarer verdict."
    )
    success_at: float | None = Field(
        default=None, ge=0, le=10, description="Semantics score from which an image counts as right."
    )
    reasoning: Literal["own", "required", "tinyworld"] = Field(
        default="own", description="own: a person's note or the critic's; required: rows with one; or exact."
    )
    held_out_runs: float = Field(
        default=0.2, ge=0, lt=1, description="Share of the annotated runs for critic_sft_held_out.json."
    )
    held_out_seed: int = Field(default=0, ge=0, description="Seed for choosing the held-out runs.")


def _instead(name: str, default: Any) -> Any:
    """Return a field of RunsData with another default."""
    field = copy(RunsData.model_fields[name])
    field.default = default
    return field


class FilterData(RunsData):
    """Settings of the published filter for trajectories of a teacher."""

    floor: float | None = _instead("floor", 3.0)
    rl_share: float | None = _instead("rl_share", 0.1)
    balance_by: Literal["both", "repeat", "drop"] = _instead("balance_by", "repeat")
    copies: int = _instead("copies", 20)
    score_repeats: int = Field(
        default=3, ge=1, le=15, description="Calls of a judge per image. The median score is used."
    )
    match_size: bool = Field(
        default=False, description="Scale an image to the size of the one before it for the judge."
    )
