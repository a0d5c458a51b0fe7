"""The pairs of images of a story between which clips belong, and the clips that still belong to them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from ..types import Trajectory
from ..types.clip import Clip, ClipPair


def clip_pairs(trajectory: Trajectory) -> tuple[ClipPair, ...]:
    """Return each pair of successive images of a story, with the prompt of the later step.

    Steps without an image are skipped. Two equal images are not a pair.
    """
    shown = [(result.step, result.image) for result in trajectory.results if result.image]
    return tuple(
        ClipPair(step=step.number, first=before, last=after, prompt=step.prompt or "")
        for (_, before), (step, after) in itertools.pairwise(shown)
        if before != after
    )


def clips_of(trajectory: Trajectory) -> dict[int, Clip]:
    """Return the clips of a story by the number of the step that they lead to.

    Clips whose images or prompt have changed since are left out.
    """
    return clips_by_step(trajectory, trajectory.clips)


def clips_by_step(trajectory: Trajectory, clips: Iterable[Clip]) -> dict[int, Clip]:
    """Return those of some clips that belong to a story, by step. Of clips for one pair, the last counts."""
    by_key = {clip.key: clip for clip in clips}
    return {pair.step: by_key[pair.key] for pair in clip_pairs(trajectory) if pair.key in by_key}


def with_clips(trajectory: Trajectory, clips: Iterable[Clip]) -> Trajectory:
    """Return a story with further clips. Clips that do not belong to it are dropped."""
    fitting = clips_by_step(trajectory, (*trajectory.clips, *clips))
    return trajectory.model_copy(update={"clips": tuple(fitting.values())})


def missing_pairs(trajectory: Trajectory) -> tuple[ClipPair, ...]:
    """Return the pairs of a story that have no clip."""
    made = clips_of(trajectory)
    return tuple(pair for pair in clip_pairs(trajectory) if pair.step not in made)
