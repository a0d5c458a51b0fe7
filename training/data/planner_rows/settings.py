"""Settings of a planner's rows.

Nothing of the conversion is imported here, so that the command line can show these options quickly.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ....backend.errors import SettingsError

Kind = Literal["text", "continuation", "description", "count"]
KINDS: tuple[Kind, ...] = ("text", "continuation", "description", "count")
Think = Literal["own", "empty"]


class PlannerRowsData(BaseModel):
    """Settings of the rows that are created from trajectories."""

    model_config = ConfigDict(extra="forbid")

    kinds: str = Field(
        default=",".join(KINDS),
        description="Kinds of rows, separated by commas: text, continuation, description, count.",
    )
    think: Think = Field(
        default="empty",
        description="Reasoning of a continuation: none (empty, published), or that of the whole plan (own).",
    )
    max_length: int = Field(
        default=16_384,
        ge=256,
        le=1_000_000,
        description="Maximum length of a row in tokens, images included. Counted only with --tokenizer.",
    )
    outside_limit: int | None = Field(
        default=None, ge=1, description="Maximum number of items from each outside set. Default: all."
    )
    parallel: int = Field(
        default=8,
        ge=1,
        le=256,
        description="Runs read, and teacher questions asked, at the same time. With --ray, by each worker.",
    )

    def chosen(self) -> tuple[Kind, ...]:
        """Return the kinds.

        Raises:
            SettingsError: A kind is unknown.
        """
        names = [name.strip() for name in self.kinds.split(",")]
        for name in names:
            if name not in KINDS:
                raise SettingsError(f"--kinds: unknown kind {name!r}.", f"Use any of {', '.join(KINDS)}.")
        return tuple(kind for kind in KINDS if kind in names)
