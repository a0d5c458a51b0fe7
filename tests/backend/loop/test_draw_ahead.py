"""The next step is generated while the critic judges this one; the trajectory is the same."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from support.small_agents import STORY, Counting, OneInThree, OnePlan, Verdicts

from interleave_thinker.backend.errors import GeneratorError
from interleave_thinker.backend.journal.store import InMemoryStore
from interleave_thinker.backend.loop.collaborators import Collaborators
from interleave_thinker.backend.loop.events import Event, Finished
from interleave_thinker.backend.loop.loop import run
from interleave_thinker.backend.machine.counters import Counts, counting
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import Plan, Request, RunSettings, Step, Trajectory, Verdict

REQUEST = Request(text="a house, a sun, a boat")
GIVEN = Request(text="a house, a sun, a boat", images=(Picture.white((16, 16)),))
THREE = Plan(steps=tuple(Step(number=number, prompt=f"thing {number}") for number in (1, 2, 3)))


def told(trajectory: Trajectory) -> object:
    """Return a trajectory without its settings and seconds."""
    results = [
        result.model_copy(
            update={"attempts": tuple(one.model_copy(update={"seconds": 0.0}) for one in result.attempts)}
        )
        for result in trajectory.results
    ]
    return trajectory.plan, results


def carried_out(
    settings: RunSettings,
    request: Request = REQUEST,
    generator: Counting | None = None,
    critic: object = None,
) -> tuple[list[Event], Counts, InMemoryStore]:
    store = InMemoryStore()
    judge: object = critic or OneInThree()
    with counting() as counts:
        events = list(
            run(request, Collaborators(OnePlan(STORY), generator or Counting(), judge), settings, store)
        )  # type: ignore[arg-type]
    return events, counts, store


def last(events: Sequence[Event]) -> Trajectory:
    assert isinstance(events[-1], Finished)
    return events[-1].trajectory


@pytest.mark.parametrize("request_", [REQUEST, GIVEN])
@pytest.mark.parametrize("source", ["previous", "first"])
@pytest.mark.parametrize("seed", range(4))
def test_generating_ahead_does_not_change_the_trajectory(request_: Request, source: str, seed: int) -> None:
    settings = RunSettings(max_attempts=3, seed=seed, source=source)  # type: ignore[arg-type]
    plain, without, store = carried_out(settings, request_)
    ahead, counts, filled = carried_out(settings.model_copy(update={"draw_ahead": True}), request_)
    assert told(last(ahead)) == told(last(plain))
    assert [type(event) for event in ahead] == [type(event) for event in plain]
    assert filled._draws.keys() == store._draws.keys(), "dropped images are not cached"
    assert counts.draws_ahead == counts.draws_ahead_used + counts.draws_ahead_wasted > 0
    # A generation that had not started before the rejection costs nothing.
    assert without.draws <= counts.draws <= without.draws + counts.draws_ahead_wasted
    assert without.draws_ahead == 0, "off by default"


class Waiting(Verdicts):
    """Returns its first verdict only after the generation of the second step has started."""

    def __init__(self, begun: threading.Event, *answers: bool) -> None:
        super().__init__(*answers)
        self.begun = begun

    def judge(self, *shown: object) -> Verdict:  # type: ignore[override]
        assert self.begun.wait(20)
        return super().judge(*shown)  # type: ignore[arg-type]


class EventStream(Counting):
    """Signals when it generates the second step."""

    def __init__(self, failures: Sequence[BaseException | None] = ()) -> None:
        super().__init__(failures=failures)
        self.begun = threading.Event()

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        if prompt.startswith("add a sun"):
            self.begun.set()
        return super().draw(prompt, source, seed)


def test_the_next_image_is_generated_while_the_critic_judges() -> None:
    generator = EventStream()
    critic = Waiting(generator.begun, True, True, True)
    _, counts, _ = carried_out(RunSettings(draw_ahead=True), generator=generator, critic=critic)
    assert (counts.draws, counts.draws_ahead_used, counts.draws_ahead_wasted) == (3, 2, 0)


def test_an_image_generated_ahead_of_a_rejection_is_dropped_even_if_it_failed() -> None:
    generator = EventStream(failures=[None, GeneratorError("no ink")])
    critic = Waiting(generator.begun, False, True, True, True)
    events, counts, _ = carried_out(RunSettings(draw_ahead=True), generator=generator, critic=critic)
    trajectory = last(events)
    assert all(attempt.error is None for result in trajectory.results for attempt in result.attempts)
    assert counts.draws_ahead_wasted == 1 and counts.draws == len(generator.drawn)


def test_a_failure_of_a_used_image_belongs_to_the_attempt() -> None:
    generator = Counting(failures=[None, GeneratorError("no ink")])
    events, counts, _ = carried_out(
        RunSettings(draw_ahead=True), generator=generator, critic=Verdicts(True, True, True)
    )
    first, again = last(events).results[2].attempts
    assert first.error is not None and "no ink" in first.error.message
    assert again.image is not None and counts.draws_ahead_used == 2


class Following(Counting):
    """Uses the story's first image as its anchor, and records it."""

    follows_anchor = True

    def __init__(self) -> None:
        super().__init__()
        self.anchor: Picture | None = None
        self.anchors: list[Picture | None] = []

    def set_anchor(self, anchor: Picture | None) -> None:
        self.anchor = anchor

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        self.anchors.append(self.anchor)
        return super().draw(prompt, source, seed)


def test_an_anchor_that_depends_on_the_verdict_is_awaited() -> None:
    generator = Following()
    events, counts, _ = carried_out(
        RunSettings(draw_ahead=True), generator=generator, critic=Verdicts(True, True, True)
    )
    first = last(events).results[0].image
    assert generator.anchors == [None, first, first]
    assert counts.draws_ahead == counts.draws_ahead_used == 1


def test_an_abandoned_run_leaves_no_thread() -> None:
    before = threading.active_count()
    stream = run(
        REQUEST,
        Collaborators(OnePlan(THREE), Counting(seconds=0.05), OneInThree()),
        RunSettings(draw_ahead=True),
    )
    for _ in range(5):
        next(stream)
    stream.close()
    assert threading.active_count() == before
