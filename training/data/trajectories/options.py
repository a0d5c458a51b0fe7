"""Options of `data trajectories`.

The defaults are those of a teacher: a step that is never accepted ends its trajectory, since later steps
would be learned from a wrong image.
"""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field

from ....backend.errors import SettingsError
from ....backend.types import RunSettings

SECONDS_OF = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class TrajectoryOptions(BaseModel):
    """Options of which prompts are used, and how far."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    max_attempts: int = Field(
        default=5, ge=1, le=100, description="Maximum number of attempts per step, including the first."
    )
    max_draws: int = Field(
        default=25, ge=1, le=10_000, description="Maximum number of attempts per trajectory (published: 15)."
    )
    go_on: bool = Field(
        default=False,
        description="If a step is never accepted, continue with its best image instead of "
        "ending the trajectory.",
    )
    accept_at: float | None = Field(
        default=None, ge=0, le=1, description="Accept at this P(success). Default: the critic's own verdict."
    )
    seed: int = Field(
        default=0, ge=0, le=2**48, description="Base seed, from which every prompt's seed is derived."
    )
    limit: int | None = Field(
        default=None, ge=1, description="Use only this many prompts from the beginning of the file."
    )
    shard: str = Field(
        default="0/1", description="Use only part i of n, written as i/n. Prompts are assigned by their id."
    )
    stop_after: str | None = Field(
        default=None, description="Stop after this time (90s, 30m, 4h). Run the same command again to resume."
    )
    budget: float | None = Field(
        default=None, gt=0, description="Stop when this amount is spent, by the prices in --prices."
    )
    retry_failed: bool = Field(default=False, description="Also retry prompts that failed before.")

    def run_settings(self) -> RunSettings:
        """Return the settings of the loop."""
        return RunSettings(
            max_attempts=self.max_attempts,
            max_draws=self.max_draws,
            on_failure="keep" if self.go_on else "stop",
            accept_at=self.accept_at,
            seed=self.seed,
        )


def seconds_of(text: str) -> float:
    """Return the seconds of 90, 90s, 30m, 4h or 2d.

    Raises:
        SettingsError: The text is not a duration.
    """
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)\s*([smhd]?)", text.strip().lower())
    seconds = float(found[1]) * SECONDS_OF[found[2] or "s"] if found else 0.0
    if seconds <= 0:
        raise SettingsError(f"{text!r} is not a duration.", "Write 90s, 30m, 4h or 2d.")
    return seconds
