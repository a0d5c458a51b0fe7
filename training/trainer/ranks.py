"""What the processes of one training decide together.

Decision: whatever stops a training or waits for a service is decided once and sent to all, errors included: a
rank that goes on alone, or stops alone, leaves the others waiting for it. They wait as long as calls of judge
and generator may take by their own deadlines, and not the half hour after which the process group would end
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

from ...backend.errors import InterleaveError, TrainingError

Found = TypeVar("Found")

MIN_PATIENCE = 1800
"""Seconds that ranks wait for each other where nothing else is known: the libraries' own."""
MAX_PATIENCE = 2 * 86400


def patience(longest: float) -> int:
    """Seconds that ranks wait for each other where one may be at calls that end after `longest` seconds."""
    return round(min(MAX_PATIENCE, MIN_PATIENCE + longest))


def of_first_rank(check: Callable[[], Found], devices: int) -> Found:
    """The check of the first rank, so that all decide alike and a judge is asked once; its error too, since
    ranks that wait for a check that never comes would hang."""
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
    """A function that gives every rank the first problem that any of them has."""
    if devices == 1:
        return lambda problem: problem
    from accelerate.utils import gather_object

    return lambda problem: next((one for one in gather_object([problem]) if one is not None), None)


def gathered(trainer: Any) -> Any:
    """The model as one that can generate, whatever it is distributed over."""
    from trl.models.utils import unwrap_model_for_generation

    if trainer.accelerator.num_processes == 1:
        return nullcontext(trainer.accelerator.unwrap_model(trainer.model))
    return unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator)
