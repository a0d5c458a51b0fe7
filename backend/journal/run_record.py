"""What stands in a run folder's run.json: what was asked for, with which settings, of whom.

Decision: pictures stand in it by their digests, and so does the plan: plan.json is the plan, and a person may
have edited it since.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..types import FORMAT_VERSION, MAX_IMAGES, Identities, RunSettings, Several, Text, Value
from .store import Digest

FORMAT = "interleave-thinker run"


class Planned(Value):
    """Which plan a planner wrote, to tell a person's edit of plan.json from it."""

    key: Digest
    digest: Digest


class RequestRecord(Value):
    """A request whose pictures are named by their digests."""

    text: Text
    images: Several[Digest] = Field(default=(), max_length=MAX_IMAGES)


class RunRecord(Value):
    """The content of run.json."""

    format: Literal["interleave-thinker run"] = FORMAT
    version: int = FORMAT_VERSION
    request: RequestRecord
    settings: RunSettings
    identities: Identities
    planned: Planned | None = None
