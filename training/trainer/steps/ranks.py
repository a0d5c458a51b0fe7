"""Decisions that all processes of a training make together.

Everything that stops a training or waits for a service is decided by one rank and sent to all, including
errors: a rank that continues or stops alone would leave the others waiting. Ranks wait as long as calls of
judge and generator may take by their own deadlines, instead of the half hour after which the process group
would abort.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

from ....backend.errors import InterleaveError, TrainingError

Found = TypeVar("Found")

MIN_PATIENCE = 1800
"""Default timeout of the process group, in seconds."""
MAX_PATIENCE = 2 * 86400


def patience(longest: float) -> int:
    """Return the process group's timeout in seconds, if calls of one rank may take `longest` seconds."""
    return round(min(MAX_PATIENCE, MIN_PATIENCE + longest))


def of_first_rank(check: Callable[[], Found], devices: int) -> Found:
    """Run a check on the first rank only, and return its result on every rank.

    All ranks thus decide the same, and a judge is called once. An error is also raised on every rank, since
    ranks that wait for a missing result would hang.

    Raises:
        TrainingError: The check failed.
    """
    if devices == 1:
        return check()
    from accelerate.utils import broadcast_object_list

    outcome: list[Any] = [None, None]
    if os.environ.get("RANK", "0") == "0":
        try:
            outcome[0] = check()
        except InterleaveError as error:
            outcome[1] = error.message, error.hint
    found, failed = broadcast_object_list(outcome)
    if failed is not None:
        raise TrainingError(*failed)
    return found


def agreed(devices: int) -> Callable[[str | None], str | None]:
    """Return a function that returns the first problem of any rank on every rank."""
    if devices == 1:
        return lambda problem: problem
    from accelerate.utils import gather_object

    return lambda problem: next((one for one in gather_object([problem]) if one is not None), None)


def gathered(trainer: Any) -> Any:
    """Return a context manager with the model ready for generation, however it is distributed."""
    from trl.models.utils import unwrap_model_for_generation

    if trainer.accelerator.num_processes == 1:
        return nullcontext(trainer.accelerator.unwrap_model(trainer.model))
    return unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator)
