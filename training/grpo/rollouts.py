"""Batches and rollouts that follow from the settings of a GRPO training.

Users count in rollouts and answers. The trainer's own counts (gradient accumulation steps, steps per
generation) are derived here in one place. If they do not divide evenly, or the rows are fewer than those of a
rollout, the error names values that fit.
"""

from __future__ import annotations

import math

from ...backend.errors import SettingsError
from .settings import GrpoTraining


def batches(settings: GrpoTraining, devices: int) -> tuple[int, int]:
    """Return (micro-batches per optimizer step, micro-batches per rollout) of each of `devices`.

    Raises:
        SettingsError: The answers of a rollout cannot be divided evenly.
    """
    answers = settings.prompts * settings.num_generations
    a_step, rest = divmod(answers, settings.updates * settings.per_device_train_batch_size * devices)
    if rest:
        raise SettingsError(
            f"{settings.prompts} prompts x {settings.num_generations} answers = {answers} cannot be divided "
            f"into {settings.updates} updates of micro-batches of {settings.per_device_train_batch_size} on "
            f"{devices} device(s).",
            f"{_advice(settings, settings.prompts, devices)}.",
        )
    return a_step, a_step * settings.updates


def rollouts_of(settings: GrpoTraining, rows: int, devices: int = 1) -> int:
    """Return the number of rollouts of the training.

    Raises:
        SettingsError: The rows or steps are fewer than those of one rollout.
    """
    if rows < settings.prompts:
        raise SettingsError(
            f"{rows} training rows are fewer than the {settings.prompts} rows of one rollout.",
            f"{_advice(settings, rows, devices)}, or give {settings.prompts - rows} more rows.",
        )
    rollouts = settings.rollouts or max(1, math.floor(settings.num_train_epochs * (rows // settings.prompts)))
    if settings.max_steps is None:
        return rollouts
    if settings.max_steps < settings.updates:
        raise SettingsError(
            f"--max-steps {settings.max_steps} is less than the {settings.updates} steps of one rollout.",
            "Raise --max-steps, or lower --updates.",
        )
    return min(rollouts, settings.max_steps // settings.updates)


def fitting_values(settings: GrpoTraining, most: int, devices: int = 1) -> dict[str, int]:
    """Return the largest rollout of at most `most` rows that divides evenly, as changed settings.

    The number of answers per row and of updates stays, and a micro-batch does not grow. Empty if no rollout
    of at most `most` rows divides evenly.
    """
    for prompts in range(most, 0, -1):
        answers, rest = divmod(prompts * settings.num_generations, settings.updates * devices)
        if not rest:
            sizes = range(min(settings.per_device_train_batch_size, answers), 0, -1)
            fitting = {
                "prompts": prompts,
                "per_device_train_batch_size": next(size for size in sizes if answers % size == 0),
            }
            return {name: value for name, value in fitting.items() if value != getattr(settings, name)}
    return {}


def _advice(settings: GrpoTraining, most: int, devices: int) -> str:
    fitting = fitting_values(settings, most, devices)
    options = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in fitting.items())
    return f"Set {options}" if options else "Lower --updates"
