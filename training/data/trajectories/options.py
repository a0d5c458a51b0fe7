"""Which prompts are carried out and how far: the options of `data trajectories`.

Decision: the defaults are a teacher's: a step that was never accepted ends its trajectory, since whatever
would come after it would be learned from a wrong image.
"""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field

from ....backend.errors import SettingsError
from ....backend.types import RunSettings

SECONDS_OF = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class TrajectoryOptions(BaseModel):
    """Which prompts are carried out, and how far."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    max_attempts: int = Field(default=5, ge=1, le=100, description="Draws of a step at most.")
    max_draws: int = Field(
        default=25, ge=1, le=10_000, description="Draws of a trajectory at most (15 is as published)."
    )
    go_on: bool = Field(
        default=False, description="Go on after a step that was never accepted, with its best image."
    )
    accept_at: float | None = Field(
        default=None, ge=0, le=1, description="Probability of success needed to accept; empty: its own word."
    )
    seed: int = Field(default=0, ge=0, le=2**48, description="Base seed; every prompt gets its own from it.")
    limit: int | None = Field(default=None, ge=1, description="Only the first so many prompts of the file.")
    shard: str = Field(default="0/1", description="Only part i of n of them, as i/n, by digest of the id.")
    stop_after: str | None = Field(
        default=None, description="Stop after this time (90s, 30m, 4h); the same command goes on later."
    )
    budget: float | None = Field(
        default=None, gt=0, description="Stop once this much is spent, by the prices of --prices."
    )
    retry_failed: bool = Field(default=False, description="Try those that failed before again.")

    def run_settings(self) -> RunSettings:
        """As the loop takes them."""
        return RunSettings(
            max_attempts=self.max_attempts,
            max_draws=self.max_draws,
            on_failure="keep" if self.go_on else "stop",
            accept_at=self.accept_at,
            seed=self.seed,
        )


def seconds_of(text: str) -> float:
    """Seconds of 90, 90s, 30m, 4h or 2d; raises SettingsError."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)\s*([smhd]?)", text.strip().lower())
    seconds = float(found[1]) * SECONDS_OF[found[2] or "s"] if found else 0.0
    if seconds <= 0:
        raise SettingsError(f"{text!r} is no time.", "Write 90s, 30m, 4h or 2d.")
    return seconds
