"""What the loop does for every outcome of generating and judging, and the order of its events."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.small_agents import ChatError, Counting, GeneratorError, OneInThree, OnePlan, Verdicts

from interleave_thinker import Attempt, AttemptJudged, Event, Finished, Picture, Plan, Step, open_generator
from interleave_thinker.backend.core.errors import Cancelled, SettingsError
from interleave_thinker.backend.core.machine.counters import count
from interleave_thinker.backend.core.types import (
    Request,
    RunSettings,
    Score,
    Spent,
    StopReason,
    Trajectory,
    Verdict,
)
from interleave_thinker.backend.output.report.run_report import report
from interleave_thinker.backend.story.journal.store import InMemoryStore
from interleave_thinker.backend.story.loop import cached_draws, judgements, loop, step_run
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import AttemptDrawn, AttemptStarted, PlanReady, StepFinished
from interleave_thinker.backend.story.loop.loop import GIVEN, run
from interleave_thinker.backend.story.loop.policy import accepted, attempt_seed, choose, first_image
from interleave_thinker.backend.story.outcomes import times_of
from interleave_thinker.cli.commands.doctor import time_advice

REQUEST = Request(text="a house, then the sun, then a boat")
HOUSE = Plan(steps=(Step(number=1, prompt="a house"),))
HOUSE_AND_SUN = Plan(steps=(Step(number=1, prompt="a house"), Step(number=2, prompt="add a sun")))
RED, BLUE = (Picture.white((16, 16)), Picture(open_generator("fake:16").draw("blue", None, 0).image))


def tell(request, planner, generator, critic, *rest, **options) -> Trajectory:
    """Return the trajectory of a whole run."""
    last = list(run(request, Collaborators(planner, generator, critic), *rest, **options))[-1]
    assert isinstance(last, Finished)
    return last.trajectory


def test_a_rejected_and_redrawn_step_emits_events_in_order() -> None:
    critic = Verdicts(Verdict(success=False, refined_prompt="a red house"), True)
    events = list(run(REQUEST, Collaborators(OnePlan(HOUSE), Counting(), critic)))
    attempt = [AttemptStarted, AttemptDrawn, AttemptJudged]
    assert [type(event) for event in events] == [PlanReady, *attempt, *attempt, StepFinished, Finished]
    started = [event for event in events if isinstance(event, AttemptStarted)]
    assert [event.prompt for event in started] == ["a house", "a red house"]
    assert [event.attempt for event in started] == [0, 1]
    assert events[-2].result.stop_reason is StopReason.accepted
    assert events[-2].result.chosen == 1


def test_verdict_is_always_against_the_original_prompt() -> None:
    refusals = [Verdict(success=False, refined_prompt=f"version {number}") for number in range(3)]
    critic = Verdicts(*refusals)
    tell(REQUEST, OnePlan(HOUSE), Counting(), critic, RunSettings(max_attempts=3))
    assert [(original, used) for _, _, original, used in critic.shown] == [
        ("a house", "a house"),
        ("a house", "version 0"),
        ("a house", "version 1"),
    ]


def test_one_attempt_calls_no_critic() -> None:
    critic = Verdicts()
    trajectory = tell(REQUEST, OnePlan(), Counting(), critic, RunSettings(max_attempts=1))
    assert not critic.shown
    assert [result.stop_reason.value for result in trajectory.results] == [
        "unjudged",
        "text only",
        "unjudged",
        "unjudged",
    ]
    assert trajectory.identities.critic == ""
    without = tell(REQUEST, OnePlan(), Counting(), None)
    assert [result.image for result in without.results] == [result.image for result in trajectory.results]


def test_attempts_count_generator_calls_and_the_best_is_kept() -> None:
    critic = Verdicts(*(Verdict(success=False, probability=p) for p in (0.1, 0.4, 0.2)))
    generator = Counting()
    result = tell(REQUEST, OnePlan(HOUSE), generator, critic, RunSettings(max_attempts=3)).results[0]
    assert len(generator.drawn) == 3
    assert result.stop_reason is StopReason.attempts_used_up
    assert result.chosen == 1


@pytest.mark.parametrize(
    ("verdict", "accept_at", "passes"),
    [
        (None, None, False),
        (Verdict(success=None), None, False),
        (Verdict(success=None, probability=1.0), 0.0, False),
        (Verdict(success=True), None, True),
        (Verdict(success=False), None, False),
        (Verdict(success=False), 0.1, False),
        (Verdict(success=True, probability=0.6), 0.9, False),
        (Verdict(success=True, probability=0.9), 0.9, True),
        (Verdict(success=False, probability=0.4), 0.3, True),
    ],
)
def test_acceptance(verdict: Verdict | None, accept_at: float | None, passes: bool) -> None:
    assert accepted(verdict, accept_at) is passes


def _attempt(success: bool | None, probability: float | None = None, score: float | None = None) -> Attempt:
    return Attempt(
        prompt="p",
        seed=0,
        image=RED,
        verdict=Verdict(success=success, probability=probability),
        score=None if score is None else Score(semantics=score, quality=score),
    )


@pytest.mark.parametrize(
    ("attempts", "best"),
    [
        ([_attempt(False, 0.3), _attempt(False, 0.2)], 0),
        ([_attempt(False, 0.2, 5.0), _attempt(False, 0.2, 4.0)], 0),
        ([_attempt(False, 0.2), _attempt(False, 0.2)], 1),
        ([_attempt(False, 0.2), _attempt(False, 0.2 - 1e-9)], 1),
        ([_attempt(False), Attempt(prompt="p", seed=0)], 0),
        ([_attempt(None, 0.9), _attempt(False, 0.6)], 1),
        ([Attempt(prompt="p", seed=0)], None),
        ([], None),
        ([_attempt(False, 0.9), _attempt(True, 0.95)], 1),
    ],
)
def test_choice_of_the_best(attempts: list[Attempt], best: int | None) -> None:
    assert choose(attempts, RunSettings()) == best


@given(
    st.tuples(st.integers(0, 2**48), st.integers(1, 100), st.integers(0, 99)),
    st.tuples(st.integers(0, 2**48), st.integers(1, 100), st.integers(0, 99)),
)
def test_seeds_differ(first: tuple[int, int, int], second: tuple[int, int, int]) -> None:
    assert 0 <= attempt_seed(*first) < 2**48
    assert (attempt_seed(*first) == attempt_seed(*second)) == (first == second)


def test_seed_rule_is_pinned() -> None:
    assert attempt_seed(0, 1, 0) == 180282650477571


def test_step_one_is_generated_from_text_and_judged_without_a_source() -> None:
    generator, critic = Counting(), Verdicts(True, True)
    trajectory = tell(REQUEST, OnePlan(HOUSE_AND_SUN), generator, critic)
    first = trajectory.results[0].image
    assert [source for _, source, _ in generator.drawn] == [None, first]
    assert [before for before, *_ in critic.shown] == [None, first]


@pytest.mark.parametrize(("source", "first", "later"), [("previous", 1, "step"), ("anchor", 0, "anchor")])
def test_input_images(source: str, first: int, later: str) -> None:
    request = Request(text="go on", images=(RED, BLUE))
    generator = Counting()
    settings = RunSettings.model_validate({"source": source})
    trajectory = tell(request, OnePlan(HOUSE_AND_SUN), generator, Verdicts(True, True), settings)
    sources = [source for _, source, _ in generator.drawn]
    assert sources[0] == request.images[first]
    assert sources[1] == (RED if later == "anchor" else trajectory.results[0].image)


def test_source_first_edits_the_first_generated_image() -> None:
    generator = Counting()
    trajectory = tell(REQUEST, OnePlan(), generator, Verdicts(True, True, True), RunSettings(source="first"))
    first = trajectory.results[0].image
    assert [source for _, source, _ in generator.drawn] == [None, first, first]


def test_anchor_without_an_image_is_rejected_before_the_run_starts() -> None:
    with pytest.raises(SettingsError, match="anchor"):
        run(REQUEST, Collaborators(OnePlan(), Counting()), RunSettings(source="anchor"))


def test_nothing_is_generated_or_judged_twice() -> None:
    store, planner, generator, critic = InMemoryStore(), OnePlan(), Counting(), OneInThree()
    first = tell(REQUEST, planner, generator, critic, journal=store)
    count = len(generator.drawn), len(critic.shown), planner.asked
    events: list[Event] = list(run(REQUEST, Collaborators(planner, generator, critic), journal=store))
    assert (len(generator.drawn), len(critic.shown), planner.asked) == count
    assert all(
        event.reused for event in events if isinstance(event, PlanReady | AttemptDrawn | AttemptJudged)
    )
    assert events[-1] == Finished(first)


def test_a_failed_generation_is_recorded_and_the_next_seed_follows() -> None:
    generator = Counting(failures=[GeneratorError("no memory left")])
    result = tell(REQUEST, OnePlan(HOUSE), generator, Verdicts(True)).results[0]
    failed, drawn = result.attempts
    assert failed.error is not None
    assert (failed.error.where, failed.error.message, failed.image) == ("generator", "no memory left", None)
    assert drawn.prompt == failed.prompt
    assert drawn.seed != failed.seed
    assert (result.stop_reason, result.chosen) == (StopReason.accepted, 1)


@pytest.mark.parametrize(("on_failure", "results"), [("keep", 2), ("stop", 1)])
def test_step_without_any_image(on_failure: str, results: int) -> None:
    generator = Counting(failures=[GeneratorError("broken"), GeneratorError("broken")])
    settings = RunSettings.model_validate({"max_attempts": 2, "on_failure": on_failure})
    trajectory = tell(REQUEST, OnePlan(HOUSE_AND_SUN), generator, Verdicts(True, True), settings)
    assert len(trajectory.results) == results
    assert trajectory.results[0].stop_reason is StopReason.error
    assert trajectory.results[0].chosen is None
    assert all(source is None for _, source, _ in generator.drawn), "no image to edit exists yet"


def test_on_failure_stop_ends_after_the_rejected_step() -> None:
    settings = RunSettings(max_attempts=2, on_failure="stop")
    trajectory = tell(REQUEST, OnePlan(HOUSE_AND_SUN), Counting(), Verdicts(False, False), settings)
    assert [result.stop_reason for result in trajectory.results] == [StopReason.attempts_used_up]


def test_failed_judgement_is_never_acceptance() -> None:
    critic = Verdicts(False, ChatError("server gone"))
    settings = RunSettings(max_attempts=2, accept_at=0.0)
    result = tell(REQUEST, OnePlan(HOUSE), Counting(), critic, settings).results[0]
    assert result.stop_reason is StopReason.attempts_used_up
    assert [attempt.error and attempt.error.where for attempt in result.attempts] == [None, "critic"]
    assert result.attempts[1].verdict is None and result.attempts[1].image


def test_given_plan_needs_no_planner() -> None:
    trajectory = tell(REQUEST, None, Counting(), None, plan=HOUSE)
    assert trajectory.plan == HOUSE
    assert trajectory.identities.planner == GIVEN
    with pytest.raises(SettingsError, match="planner"):
        list(run(REQUEST, Collaborators(None, Counting())))


@pytest.mark.parametrize("stop", [Cancelled("stopped"), KeyboardInterrupt()])
@pytest.mark.parametrize("where", ["generator", "critic"])
def test_cancelling_reports_the_partial_story_and_raises_again(stop: BaseException, where: str) -> None:
    generator = Counting(failures=[None, None, stop] if where == "generator" else [])
    critic = Verdicts(True, False, *([stop] if where == "critic" else [True]))
    if where == "critic":
        critic.answers = [True, stop]
    events: list[Event] = []
    store = InMemoryStore()
    with pytest.raises(type(stop)):
        for event in run(REQUEST, Collaborators(OnePlan(HOUSE_AND_SUN), generator, critic), journal=store):
            events.append(event)
    finished, step = events[-1], events[-2]
    assert isinstance(finished, Finished)
    assert isinstance(step, StepFinished)
    assert step.result.stop_reason is StopReason.cancelled
    assert len(step.result.attempts) == 1
    assert step.result.attempts[0].image is not None
    assert finished.trajectory.results[0].stop_reason is StopReason.accepted
    assert store.trajectory == finished.trajectory


def test_closing_the_stream_keeps_finished_steps() -> None:
    store, generator = InMemoryStore(), Counting()
    events = run(REQUEST, Collaborators(OnePlan(HOUSE), generator, Verdicts(True)), journal=store)
    for event in events:
        if isinstance(event, AttemptDrawn):
            break
    events.close()  # type: ignore[attr-defined]
    tell(REQUEST, OnePlan(HOUSE), generator, Verdicts(True), journal=store)
    assert len(generator.drawn) == 1


class TakingTime(Counting):
    """Takes five seconds for an image."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__()
        self._clock = clock

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        self._clock[0] += 5.0
        return super().draw(prompt, source, seed)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the loop, which only its models move."""
    now = [0.0]
    for module in (loop, cached_draws, judgements, step_run):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_the_time_budget_ends_the_run_and_is_reported(clock: list[float]) -> None:
    generator = TakingTime(clock)
    settings = RunSettings(time_budget=2.0)
    trajectory = tell(REQUEST, OnePlan(HOUSE_AND_SUN), generator, Verdicts(False, True, True), settings)
    assert len(generator.drawn) == 1
    assert [result.stop_reason for result in trajectory.results] == [StopReason.budget]
    assert trajectory.results[0].chosen == 0
    assert trajectory.results[0].attempts[0].seconds == 5.0


def test_planner_generator_and_critic_are_timed_apart(clock: list[float]) -> None:
    class SlowPlan(OnePlan):
        def plan(self, request: Request) -> Plan:
            clock[0] += 2.0
            count(prompt_tokens=90, reply_tokens=40)
            return super().plan(request)

    class SlowVerdicts(Verdicts):
        def judge(self, *asked: Any) -> Verdict:
            clock[0] += 8.0
            count(loading_seconds=1.0, prompt_tokens=100, cached_tokens=60, reply_tokens=7)
            return super().judge(*asked)

    trajectory = tell(REQUEST, SlowPlan(HOUSE), TakingTime(clock), SlowVerdicts(False, True))
    assert list(times_of(trajectory).items()) == [
        ("critic", Spent(seconds=14.0, read=80, cached=120, written=14)),
        ("generator", Spent(seconds=10.0)),
        ("planner", Spent(seconds=2.0, read=90, written=40)),
    ]
    assert "Time of the critic: 14.0 s (80 tokens read, 120 cached, 14 written)" in report(trajectory)
    assert time_advice(trajectory)[0] == "The critic took 54% of 26.0 s."


def test_a_story_starts_from_the_requests_first_image_or_the_first_generated_one() -> None:
    results = tell(REQUEST, OnePlan(), Counting(), None).results
    assert first_image((RED, BLUE), results) is RED
    assert first_image((), results) == results[0].image
    assert results[1].image is None and first_image((), results[1:]) == results[2].image
    assert first_image((), ()) is None
