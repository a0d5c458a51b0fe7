"""The input by which every try draws several candidates, for the nodes that carry out a plan.

Decision: one wording and one range for both, the loop's own.
"""

from __future__ import annotations

from comfy_api.latest import io

from ...backend.types import MAX_BATCH, RunSettings


def candidates_input() -> io.Int.Input:
    """How many images are drawn for each try; 1, as it always was, where a workflow does not have it."""
    return io.Int.Input(
        "candidates",
        default=1,
        min=1,
        max=MAX_BATCH,
        optional=True,
        advanced=True,
        tooltip=RunSettings.model_fields["candidates"].description,
    )
