"""Settings of a planner's GRPO training that differ from a critic's, and its held-out rows."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from ...backend.errors import SettingsError
from ..data.rows.rl import PlannerRlRow
from .settings import HELD_OUT, GrpoTraining


class PlannerGrpoTraining(GrpoTraining):
    """Settings of a planner's GRPO training; the paper does not publish any."""

    collapse_threshold: float = Field(
        default=0.8,
        ge=0,
        le=1,
        description="Training stops if the match of the held-out plans falls below this share of the first "
        "check's.",
    )


def split_planner_rows(
    rows: Sequence[PlannerRlRow], settings: GrpoTraining
) -> tuple[list[PlannerRlRow], list[PlannerRlRow]]:
    """Split the rows into (rows to train on, rows to check on).

    The last rows of the file are held out, at most a fifth of all. Rows with the request of a held-out row
    are dropped from the training rows.

    Raises:
        SettingsError: There are too few rows to hold any out.
    """
    held = min(settings.check_rows, int(len(rows) * HELD_OUT))
    if not held:
        raise SettingsError(
            f"{len(rows)} rows are too few to hold any out for the checks.",
            "Give more rows, or a held-out set with --held-out.",
        )
    checked = list(rows[-held:])
    requests = {row.request for row in checked}
    return [row for row in rows if row.request not in requests], checked
