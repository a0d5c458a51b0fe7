"""Trajectories that can be used as training data unchanged: those in which every step was accepted.

A step is accepted by a critic or picked by a person. A step without a verdict does not count: whether its
image is right is unknown, and a model would learn from it as if it were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ...backend.core.errors import JournalError, PictureError
from ...backend.core.types import StopReason, Trajectory
from ...backend.story.loop.replay import load_trajectory
from ...training.from_runs.run_folders import TRAIN, find_runs, prompt_of

ACCEPTED = frozenset({StopReason.accepted, StopReason.picked, StopReason.text_only})


class AcceptedRun(NamedTuple):
    """A run that is taught: its name, the id of its prompt, and whether this prompt is held out."""

    name: str
    id: str
    held_out: bool
    trajectory: Trajectory


def not_accepted(trajectory: Trajectory) -> str:
    """Return why a trajectory must not be taught as it is, or an empty text."""
    reasons = {one.stop_reason for one in trajectory.results}
    if len(trajectory.results) < len(trajectory.plan.steps) or reasons - ACCEPTED - {StopReason.unjudged}:
        return "not every step was accepted"
    return "a step was not judged" if StopReason.unjudged in reasons else ""


def accepted_runs(
    runs: Sequence[Path], unfit: Callable[[Trajectory], str], left_out: Counter[str]
) -> Iterator[AcceptedRun]:
    """Yield the accepted runs in these folders, sorted by name; `left_out` counts the others by reason.

    Raises:
        SettingsError: A folder does not contain a run.
    """
    for folder, name in sorted(find_runs(runs), key=lambda run: run[1]) if runs else ():
        try:
            trajectory, prompt = load_trajectory(folder), prompt_of(folder)
            reason = not_accepted(trajectory) or unfit(trajectory)
        except (JournalError, PictureError):
            left_out["its folder cannot be read"] += 1
            continue
        if reason:
            left_out[reason] += 1
        else:
            yield AcceptedRun(name, prompt.id or name, prompt.split not in ("", TRAIN), trajectory)
