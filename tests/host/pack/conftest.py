"""Fixtures for several tests of the pack in a host."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from support.stories import make_trajectory

from interleave_thinker.backend.story.journal.copy import save_trajectory

from ..server.comfy_server import ComfyServer


@pytest.fixture(scope="module")
def story_name(host: ComfyServer) -> Iterator[str]:
    """A valid story for Load Story, which exists during one test file."""
    folder = host.base / "input" / "hostile-good"
    save_trajectory(make_trajectory(3, request="Hostile"), folder)
    yield "input/hostile-good"
    shutil.rmtree(folder)
