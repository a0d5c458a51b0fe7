"""Candidates on several services: generated at the same time, with the same result as one after another."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest
from support.image_service import ImageService, image_service
from support.small_agents import STORY, OneInThree

from interleave_thinker.backend.core.errors import Cancelled
from interleave_thinker.backend.core.types import Request, RunSettings, Trajectory
from interleave_thinker.backend.models.generators import open_generator
from interleave_thinker.backend.models.generators.wrappers import OFF, TO_SOURCE, color_matched
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import AttemptDrawn, Finished
from interleave_thinker.backend.story.loop.loop import run

SETTINGS = RunSettings(candidates=3, max_attempts=6)


class Alone(threading.Barrier):
    """Records whether calls overlap."""

    def __init__(self) -> None:
        super().__init__(2)
        self.met = False

    def wait(self, timeout: float | None = None) -> int:
        with suppress(threading.BrokenBarrierError):
            super().wait(0.3)
            self.met = True
        return 0


def story(services: list[ImageService], match: str = OFF, workers: int = 2) -> Trajectory:
    for one in services:
        one.health = {"identity": "painter/1", "workers": {"alive": workers}}
    generator = open_generator("http:" + ",".join(one.url for one in services))
    events = run(
        Request(text="a"),
        Collaborators(None, color_matched(generator, match), OneInThree()),
        SETTINGS,
        plan=STORY,
    )
    last = list(events)[-1]
    assert isinstance(last, Finished)
    return last.trajectory


def without_seconds(trajectory: Trajectory) -> Any:
    written = trajectory.model_dump(mode="json")
    for result in written["results"]:
        for attempt in result["attempts"]:
            del attempt["seconds"]
    return written


@pytest.mark.parametrize("match", [OFF, TO_SOURCE])
def test_candidates_meet_at_several_services_and_are_those_of_one(match: str) -> None:
    with image_service() as alone:
        alone.faults = []
        expected = story([alone], match)
    with image_service() as one, image_service() as other:
        meets = threading.Barrier(3)
        one.meets = other.meets = meets  # no request is answered before three have arrived
        found = story([one, other], match)
        assert one.requests and other.requests
    assert without_seconds(found) == without_seconds(expected)


def test_candidates_do_not_queue_at_a_service_with_one_worker() -> None:
    with image_service() as one:
        one.meets = alone = Alone()
        story([one], workers=1)
        assert len(one.requests) >= 3 and not alone.met


def test_a_failed_generation_affects_one_candidate() -> None:
    with image_service() as one, image_service() as other:
        one.faults = [(200, b'{"success": false, "error": "no boat"}')]
        attempts = [attempt for result in story([one, other]).results for attempt in result.attempts]
    failed = [attempt.error for attempt in attempts if attempt.error]
    assert len(failed) == 1 and "no boat" in failed[0].message


def test_cancelling_stops_all_candidates() -> None:
    with image_service() as one, image_service() as other:
        for service in (one, other):
            service.health = {"identity": "painter/1", "workers": {"alive": 2}}
        asked = threading.Event()
        generator = open_generator(f"http:{one.url},{other.url}", interrupted=asked.is_set)
        events = run(Request(text="a"), Collaborators(None, generator, OneInThree()), SETTINGS, plan=STORY)
        for event in events:
            if isinstance(event, AttemptDrawn):
                break
        one.hangs_at = other.hangs_at = "/edit"
        asked.set()
        with pytest.raises(Cancelled):
            list(events)
        left = [thread for thread in threading.enumerate() if thread.name.startswith("draws side by side")]
        for thread in left:
            thread.join(10)
        assert not any(thread.is_alive() for thread in left)
