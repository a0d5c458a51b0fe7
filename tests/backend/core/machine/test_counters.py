"""Counters of a run: nothing is generated or judged twice, the last attempt is judged only on request."""

from __future__ import annotations

import pytest
from support.journal_runs import told
from support.small_agents import STORY, Counting, OneInThree, OnePlan, Verdicts

from interleave_thinker import Plan, Request, RunSettings, Step
from interleave_thinker.backend.core.machine.counters import counting
from interleave_thinker.backend.story.journal.store import InMemoryStore

REQUEST = Request(text="a house, a sun, a boat")


def test_a_repeated_run_generates_and_judges_nothing() -> None:
    memory, generator = InMemoryStore(), Counting()
    critic = OneInThree()
    with counting() as first:
        told(None, generator, critic, memory, planner=OnePlan())
    assert (first.draws, first.judgements) == (len(generator.drawn), len(critic.shown))
    with counting() as again:
        told(None, generator, critic, memory, planner=OnePlan(STORY))
    assert (again.draws, again.judgements) == (0, 0)
    assert (again.draws_kept, again.judgements_kept) == (first.draws, first.judgements)


@pytest.mark.parametrize(("judge_last", "asked"), [(True, 3), (False, 2)])
def test_last_attempt_is_judged_if_requested(judge_last: bool, asked: int) -> None:
    plan = Plan(steps=(Step(number=1, prompt="a house"),))
    settings = RunSettings(max_attempts=3, judge_last=judge_last, keep="last")
    with counting() as counts:
        told(plan, Counting(), Verdicts(False, False, False), settings=settings)
    assert (counts.draws, counts.judgements) == (3, asked)


def test_equal_image_is_judged_once() -> None:
    """A critic whose refined prompt and seed never change: the same image, which has its verdict already."""
    plan = Plan(steps=(Step(number=1, prompt="a house"),))
    settings = RunSettings(max_attempts=4, seed_rule="every step")
    with counting() as counts:
        told(plan, Counting(), Verdicts(False), settings=settings)
    assert (counts.draws, counts.judgements) == (1, 1)
    assert (counts.draws_kept, counts.judgements_kept) == (3, 3)
