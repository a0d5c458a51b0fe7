"""A story that records what it generates, for tests that kill it."""

from __future__ import annotations

from pathlib import Path

from support.small_agents import STORY, Counting, OneInThree, OnePlan

from interleave_thinker.backend.journal.journal import Journal
from interleave_thinker.backend.loop.events import Finished
from interleave_thinker.backend.loop.loop import run
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import Plan, Request, RunSettings, Trajectory

REQUEST = Request(text="a house, then the sun, then a boat", images=(Picture.white((16, 16)),))


SETTINGS = RunSettings(seed=3)


def tell(folder: Path, log: Path | None = None, seconds: float = 0.0, plan: Plan = STORY) -> Trajectory:
    """Run the story of these tests, which is the same in every process."""
    events = run(
        REQUEST, OnePlan(plan), Counting(log, seconds), OneInThree(), SETTINGS, journal=Journal(folder)
    )
    last = list(events)[-1]
    assert isinstance(last, Finished)
    return last.trajectory
