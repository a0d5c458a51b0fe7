"""What is asked of `serve load`: how many ask, how often, for how long and for what.

Decision: apart from the work, so that the command line describes the options without a HTTP library.
"""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field, field_validator

SIZE = re.compile(r"([0-9]{1,4})x([0-9]{1,4})")
MOST_SIDE = 8192


class LoadSettings(BaseModel):
    """The load that is put on a service."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    clients: int = Field(default=16, ge=1, le=4096, description="Requests in flight at most.")
    seconds: float = Field(
        default=60.0, gt=0, le=86400, description="How long requests are begun; begun ones are awaited."
    )
    rate: float | None = Field(
        default=None,
        gt=0,
        le=100000,
        description="Requests a second, begun by the clock whether or not earlier ones were answered, and "
        "timed from the moment that they were due. Empty: each client asks again when it is answered.",
    )
    timeout: float = Field(default=120.0, gt=0, le=3600, description="Seconds a request may take.")
    prompt: str = Field(default="a red boat on a calm sea", max_length=10000, description="What is drawn.")
    source: str | None = Field(
        default=None,
        description="Edit an image of WIDTHxHEIGHT pixels, made up like a photograph; empty: from text.",
    )
    size: str | None = Field(default=None, description="WIDTHxHEIGHT to ask for; empty: the service's own.")
    steps: int | None = Field(default=None, ge=1, le=1000, description="Steps to ask for.")
    model: str | None = Field(default=None, description="Which of the service's models.")
    seed: int = Field(default=0, ge=0, description="Of the first request; every other has its own.")
    same: bool = Field(default=False, description="Ask for the same image all the time.")

    @field_validator("source", "size")
    @classmethod
    def _is_size(cls, value: str | None) -> str | None:
        if value is not None:
            pixels(value)
        return value


def pixels(size: str) -> tuple[int, int]:
    """(width, height) of WIDTHxHEIGHT; raises ValueError."""
    match = SIZE.fullmatch(size)
    if match is None or not all(1 <= int(side) <= MOST_SIDE for side in match.groups()):
        raise ValueError(f"{size!r} is not WIDTHxHEIGHT with 1 to {MOST_SIDE} pixels a side")
    return int(match[1]), int(match[2])
