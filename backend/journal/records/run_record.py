"""Content of run.json in a run folder: the request, the settings and the models; and of story_checks.json.

Images are named by their digests. The plan too is only a digest: plan.json is the plan, and the user may have
edited it.
"""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import Field

from ...types import (
    FORMAT_VERSION,
    MAX_CHECKS,
    MAX_IMAGES,
    Identities,
    Plan,
    Request,
    RunSettings,
    Several,
    StoryCheck,
    Text,
    Value,
)
from .calls import Digest

FORMAT = "interleave-thinker run"
CHECKS = "story_checks.json"


class Planned(Value):
    """Identifies the plan that a planner wrote, to detect the user's edits of plan.json."""

    key: Digest
    digest: Digest


class RequestRecord(Value):
    """A request whose images are named by their digests."""

    text: Text
    images: Several[Digest] = Field(default=(), max_length=MAX_IMAGES)

    @property
    def shown(self) -> str:
        """The text as messages quote it, with at most 60 characters."""
        return self.text if len(self.text) <= 60 else f"{self.text[:57]}..."


class RunRecord(Value):
    """The content of run.json."""

    format: Literal["interleave-thinker run"] = FORMAT
    version: int = FORMAT_VERSION
    request: RequestRecord
    settings: RunSettings
    identities: Identities
    planned: Planned | None = None


class StoryChecks(Value):
    """The content of story_checks.json, oldest first."""

    format: Literal["interleave-thinker story checks"] = "interleave-thinker story checks"
    version: Literal[1] = 1
    checks: Several[StoryCheck] = Field(max_length=MAX_CHECKS)


def request_record(request: Request) -> RequestRecord:
    """Return the record of a request."""
    return RequestRecord(text=request.text, images=tuple(image.digest for image in request.images))


def plan_digest(plan: Plan) -> str:
    """Return 40 hex digits of BLAKE2b over a plan as it was planned: before the run rewrote steps of it."""
    return hashlib.blake2b(plan.as_planned.model_dump_json().encode(), digest_size=20).hexdigest()
