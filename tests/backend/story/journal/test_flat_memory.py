"""A long story needs no more memory than a short one: images in files are dropped and read again."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from interleave_thinker import CriticLike, load_trajectory
from interleave_thinker.backend.core.pictures import KEPT_PIXELS, Picture
from interleave_thinker.backend.core.types import Plan, Request, RunSettings, Step, Trajectory, Verdict
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run

SIDE = 64
IMAGE = SIDE * SIDE * 3
ROOM = 4
ATTEMPTS = 3


class Painter(FakeGenerator):
    """Counts which of its images are still in memory."""

    def __init__(self) -> None:
        super().__init__(SIDE)
        self.drawn: list[weakref.ref[Image.Image]] = []

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        picture = super().draw(prompt, source, seed)
        self.drawn.append(weakref.ref(picture.image))
        return picture

    @property
    def alive(self) -> int:
        gc.collect()
        return sum(reference() is not None for reference in self.drawn)


class Refusing(CriticLike):
    identity, prompt_set_digest = "refusing", ""

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        return Verdict(success=False, refined_prompt=f"{prompt_used}!", reasoning="no", probability=0.1)


@pytest.fixture(autouse=True)
def little_room() -> Iterator[None]:
    """A limit of a few images, as 64 MB are for the images of a real model."""
    before, KEPT_PIXELS.budget = KEPT_PIXELS.budget, ROOM * IMAGE
    yield
    KEPT_PIXELS.budget = before


def story(folder: Path, steps: int, painter: Painter) -> Trajectory:
    plan = Plan(steps=tuple(Step(number=number, prompt=f"page {number}") for number in range(1, steps + 1)))
    settings = RunSettings(max_attempts=ATTEMPTS)
    events = list(
        run(Request(text="long"), Collaborators(None, painter, Refusing()), settings, Journal(folder), plan)
    )
    return events[-1].trajectory


@pytest.mark.parametrize("steps", [3, 12])
def test_images_in_memory_do_not_grow_with_the_story(tmp_path: Path, steps: int) -> None:
    painter = Painter()
    # Every event is kept by the listener, and with them every attempt.
    trajectory = story(tmp_path / "run", steps, painter)
    assert len(painter.drawn) == steps * ATTEMPTS
    assert painter.alive <= ROOM + 1
    assert [len(result.attempts) for result in trajectory.results] == [ATTEMPTS] * steps


def test_forgotten_pixels_are_read_again_and_are_the_same(tmp_path: Path) -> None:
    trajectory = story(tmp_path / "run", 5, Painter())
    for result in trajectory.results:
        for attempt in result.attempts:
            assert attempt.image is not None
            fresh = Picture(attempt.image.image.copy())
            assert fresh == attempt.image and fresh.size == attempt.image.size == (SIDE, SIDE)
    assert load_trajectory(tmp_path / "run") == trajectory
