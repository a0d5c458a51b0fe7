"""Runs for the tests of the journal: a story run into a folder, and an edit of a file in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from support.small_agents import Counting, OneInThree, OnePlan

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import Request, Trajectory
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import Finished
from interleave_thinker.backend.story.loop.loop import run

REQUEST = Request(text="a house, then the sun, then a boat", images=(Picture.white((16, 16)),))


def tell(folder: Path, request: Request = REQUEST, **changed) -> Trajectory:
    agents = {"planner": OnePlan(), "generator": Counting(), "critic": OneInThree()}
    agents |= {name: changed.pop(name) for name in set(changed) - {"settings", "plan"}}
    last = list(run(request, Collaborators(**agents), journal=Journal(folder), **changed))[-1]
    assert isinstance(last, Finished)
    return last.trajectory


def edit(path: Path, change: Callable[[dict], object]) -> None:
    """Change a JSON file as a user does who removes its checksum."""
    content = json.loads(path.read_text())
    content.pop("checksum", None)
    change(content)
    path.write_text(json.dumps(content))
