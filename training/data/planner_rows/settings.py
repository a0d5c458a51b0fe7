"""Which rows of a planner's training data are made, as settings.

Decision: nothing of the pipeline is imported here, so that the command line can describe these options
without reading a trajectory.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ....backend.errors import SettingsError

Kind = Literal["text", "continuation", "description", "count"]
KINDS: tuple[Kind, ...] = ("text", "continuation", "description", "count")
Think = Literal["own", "empty"]


class PlannerRowsData(BaseModel):
    """Which rows are made of trajectories."""

    model_config = ConfigDict(extra="forbid")

    kinds: str = Field(
        default=",".join(KINDS), description="Kinds of rows: any of text, continuation, description, count."
    )
    think: Think = Field(
        default="empty",
        description="Reasoning of a continuation: empty, as published, or own: the whole plan's.",
    )
    max_length: int = Field(
        default=16_384,
        ge=256,
        le=1_000_000,
        description="Tokens of a row at most, its images included, where a --tokenizer counts them.",
    )
    outside_limit: int | None = Field(
        default=None, ge=1, description="Items of each outside set that are taken at most; empty: all."
    )
    parallel: int = Field(
        default=8,
        ge=1,
        le=256,
        description="Runs that are read, and questions that a teacher is asked, at a time; "
        "with --ray, by each worker.",
    )

    def chosen(self) -> tuple[Kind, ...]:
        """The kinds; raises SettingsError for an unknown one."""
        names = [name.strip() for name in self.kinds.split(",")]
        for name in names:
            if name not in KINDS:
                raise SettingsError(f"There is no kind {name!r} of rows.", f"Known: {', '.join(KINDS)}.")
        return tuple(kind for kind in KINDS if kind in names)
