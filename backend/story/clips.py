"""Which images of a story a clip belongs between, and the missing clips, made one after another.

Each clip is stored as soon as it is finished. So a run that was stopped continues with the next clip.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..core.files.video import clip_of, pyav
from ..core.seams.adoption import adopt
from ..core.types import Trajectory
from ..core.types.clip import Clip, ClipMaker, ClipPair
from ..core.types.values import bounded_identity


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


class ClipMade(NamedTuple):
    """A clip of a story, and whether it existed before."""

    pair: ClipPair
    clip: Clip
    cached: bool


def make_clips(
    trajectory: Trajectory,
    maker: ClipMaker,
    keep: Callable[[Clip], Clip],
    seed: int = 0,
    again: bool = False,
) -> Iterator[ClipMade]:
    """Yield the clips of a story, in order. Generate those that are missing or have another identity.

    A clip of an unknown maker (one that was added in ComfyUI) is kept.

    Args:
        trajectory: The story, with the clips that it has.
        maker: Generates the frames.
        keep: Stores a clip, which replaces that of the same pair, and returns it as it is stored.
        seed: Seed of all clips.
        again: Whether to make all clips again.

    Raises:
        GeneratorError: A clip cannot be generated. All clips before it are stored.
        JournalError: A clip cannot be stored, or the movie of a stored one is damaged.
        SettingsError: PyAV is missing.
        Cancelled: The run was cancelled.
    """
    pyav()
    maker = adopt(maker, ClipMaker)
    identity, made = maker_identity(maker, seed), clips_of(trajectory)
    for pair in clip_pairs(trajectory):
        clip = made.get(pair.step)
        if clip is not None and clip.maker in ("", identity) and not again:
            clip.movie.data  # noqa: B018 - a damaged movie is an error, and not a cached clip
            yield ClipMade(pair, clip, True)
            continue
        began = time.monotonic()
        footage = maker.make(pair, seed)
        clip = clip_of(pair, footage, identity, round(time.monotonic() - began, 3))
        yield ClipMade(pair, keep(clip), False)


def maker_identity(maker: ClipMaker, seed: int) -> str:
    """Return the identity of a clip's maker with its seed."""
    return bounded_identity(f"{maker.identity} seed={seed}")
