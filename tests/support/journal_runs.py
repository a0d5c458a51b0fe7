"""Runs for the tests of the journal: a story run into a folder, and an edit of a file in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.small_agents import Counting, OneInThree, OnePlan

from interleave_thinker import Event, Finished, Picture, Plan, Request, RunSettings, Trajectory
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.journal.store import RunStore
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run

STORY_REQUEST = Request(text="a story")
REQUEST = Request(text="a house, then the sun, then a boat", images=(Picture.white((16, 16)),))


def events_of(
    plan: Plan | None,
    generator: Any = None,
    critic: Any = None,
    store: RunStore | None = None,
    request: Request = STORY_REQUEST,
    settings: RunSettings = RunSettings(),  # noqa: B008 - frozen
    **parts: Any,
) -> list[Event]:
    """Return the events of a whole run. Without another generator its images are those of `fake:16`."""
    agents = Collaborators(generator=generator or FakeGenerator(16), critic=critic, **parts)
    return list(run(request, agents, settings, store, plan))


def told(plan: Plan | None, *models: Any, **rest: Any) -> Trajectory:
    """Return the trajectory of a whole run; the arguments are those of `events_of`."""
    last = events_of(plan, *models, **rest)[-1]
    assert isinstance(last, Finished)
    return last.trajectory


def tell(folder: Path, request: Request = REQUEST, **changed) -> Trajectory:
    parts = {"planner": OnePlan(), "generator": Counting(), "critic": OneInThree(), **changed}
    return told(parts.pop("plan", None), store=Journal(folder), request=request, **parts)


def edit(path: Path, change: Callable[[dict], object]) -> None:
    """Change a JSON file as a user does who removes its checksum."""
    content = json.loads(path.read_text())
    content.pop("checksum", None)
    change(content)
    path.write_text(json.dumps(content))
