"""Settings of a planner's reinforcement, where they mean something else than a critic's, and its held-out
rows."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from ...backend.errors import SettingsError
from ..data.rows.planner_rl import PlannerRlRow
from .settings import HELD_OUT, GrpoTraining


class PlannerGrpoTraining(GrpoTraining):
    """Settings of a planner's reinforcement learning; nothing of it is published."""

    collapse_threshold: float = Field(
        default=0.8,
        ge=0,
        le=1,
        description="Share of the first check's match on held-out rows below which training stops.",
    )


def split_planner_rows(
    rows: Sequence[PlannerRlRow], settings: GrpoTraining
) -> tuple[list[PlannerRlRow], list[PlannerRlRow]]:
    """(rows to train on, rows to check on): the last ones of the file, at most a fifth; rows with the request
    of a check row are left out of the training. Raises SettingsError if there are too few."""
    held = min(settings.check_rows, int(len(rows) * HELD_OUT))
    if not held:
        raise SettingsError(f"{len(rows)} rows are too few to hold any out.", "Give more, or --held-out.")
    checked = list(rows[-held:])
    asked = {row.request for row in checked}
    return [row for row in rows if row.request not in asked], checked
