"""A step whose attempts are used up is generated once from text, with a prompt for its whole image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.small_agents import Counting, OnePlan, Verdicts

from interleave_thinker.backend.errors import Cancelled
from interleave_thinker.backend.journal.journal import Journal
from interleave_thinker.backend.journal.store import InMemoryStore
from interleave_thinker.backend.loop.events import Finished, StepFinished, StepRewritten
from interleave_thinker.backend.loop.loop import run
from interleave_thinker.backend.loop.replay import load_trajectory
from interleave_thinker.backend.types import Plan, Request, RunSettings, Step, StopReason, Trajectory

REQUEST = Request(text="three things")
PLAN = Plan(steps=tuple(Step(number=n, prompt=f"thing {n}") for n in (1, 2, 3)), style="Oil painting")
WHOLE = "everything so far and thing 2"


class Rewriter:
    """Returns one prompt, and counts its calls."""

    def __init__(self, prompt: str | None = WHOLE) -> None:
        self.prompt = prompt
        self.asked: list[tuple[Plan, Step, str]] = []

    def __call__(self, plan: Plan, step: Step, problem: str) -> str | None:
        self.asked.append((plan, step, problem))
        return self.prompt


def told(*verdicts: bool, rewriter: Rewriter, **rest: Any) -> tuple[list[Any], Trajectory]:
    settings = RunSettings(max_attempts=2, **rest.get("settings", {}))
    events = list(
        run(
            REQUEST,
            rest.get("planner"),
            rest.get("generator") or Counting(),
            Verdicts(*verdicts),
            settings,
            rest.get("store") or InMemoryStore(),
            None if "planner" in rest else PLAN,
            rewriter=rewriter,
        )
    )
    assert isinstance(events[-1], Finished)
    return events, events[-1].trajectory


def test_a_failed_step_is_generated_from_text() -> None:
    rewriter = Rewriter()
    events, trajectory = told(True, False, False, True, True, rewriter=rewriter)
    first, second, third = trajectory.results
    assert [step.number for _, step, _ in rewriter.asked] == [2]
    assert second.stop_reason is StopReason.accepted
    (attempt,) = second.attempts
    assert attempt.prompt == f"Oil painting. {WHOLE}" and attempt.source is None
    assert third.attempts[0].source == second.image, "the later steps go on from it"
    assert trajectory.plan.steps[1] == second.step and second.step.settings.source == "text"
    assert [event.step.number for event in events if isinstance(event, StepRewritten)] == [2]
    assert [event.result for event in events if isinstance(event, StepFinished)] == [first, second, third]


def test_a_step_is_rewritten_once_and_never_if_it_has_no_source() -> None:
    rewriter = Rewriter()
    _, trajectory = told(*[False] * 10, rewriter=rewriter)
    assert [step.number for _, step, _ in rewriter.asked] == [2, 3], "the first step edits nothing"
    assert [len(result.attempts) for result in trajectory.results] == [2, 2, 2]
    assert all(result.stop_reason is StopReason.attempts_used_up for result in trajectory.results)


def test_without_a_prompt_the_step_keeps_its_result() -> None:
    events, trajectory = told(True, False, False, True, rewriter=Rewriter(None))
    assert trajectory.plan == PLAN and len(trajectory.results[1].attempts) == 2
    assert not any(isinstance(event, StepRewritten) for event in events)


def test_rewritten_steps_count_for_the_limit_of_images() -> None:
    generator = Counting()
    told(
        True, False, False, False, False, rewriter=Rewriter(), generator=generator, settings={"max_draws": 4}
    )
    assert len(generator.drawn) == 4
    exact = Counting()
    rewriter = Rewriter()
    told(True, False, False, rewriter=rewriter, generator=exact, settings={"max_draws": 3})
    assert len(exact.drawn) == 3 and not rewriter.asked, "no image is left for it"


def test_a_run_resumes_after_a_rewrite_without_asking_again(tmp_path: Path) -> None:
    rewriter, generator = Rewriter(), Counting()
    _, trajectory = told(
        True, False, False, True, True,
        rewriter=rewriter, generator=generator, store=Journal(tmp_path), planner=OnePlan(PLAN),
    )  # fmt: skip
    again = Counting()
    _, resumed = told(rewriter=rewriter, generator=again, store=Journal(tmp_path), planner=OnePlan(PLAN))
    assert not again.drawn and len(rewriter.asked) == 1
    assert resumed.plan == trajectory.plan and resumed.identities.planner == trajectory.identities.planner
    assert [one.image for one in load_trajectory(tmp_path).results] == [
        one.image for one in trajectory.results
    ]


def cancelled(generator: Counting, rewriter: Rewriter, *verdicts: bool) -> tuple[list[Any], Trajectory]:
    """Return the events of a run that is cancelled, and its trajectory."""
    events: list[Any] = []
    settings, critic = RunSettings(max_attempts=2), Verdicts(*verdicts)
    with pytest.raises(Cancelled):
        for event in run(REQUEST, OnePlan(PLAN), generator, critic, settings, rewriter=rewriter):
            events.append(event)
    assert isinstance(events[-1], Finished)
    return events, events[-1].trajectory


def test_a_cancelled_rewriter_leaves_one_result_with_the_attempts() -> None:
    class Cancels(Rewriter):
        def __call__(self, plan: Plan, step: Step, problem: str) -> str | None:
            raise Cancelled("Stop.")

    events, trajectory = cancelled(Counting(), Cancels(), True, False, False)
    assert [(one.step.number, one.stop_reason, len(one.attempts)) for one in trajectory.results] == [
        (1, StopReason.accepted, 1),
        (2, StopReason.cancelled, 2),
    ]
    finished = [event.result for event in events if isinstance(event, StepFinished)]
    assert tuple(finished) == trajectory.results


def test_a_cancelled_rewritten_step_is_the_step_of_the_plan() -> None:
    generator = Counting(failures=[None, None, None, Cancelled("Stop.")])
    _, trajectory = cancelled(generator, Rewriter(), True, False, False)
    last = trajectory.results[-1]
    assert last.stop_reason is StopReason.cancelled
    assert last.step == trajectory.plan.steps[1] and last.step.prompt == f"Oil painting. {WHOLE}"
