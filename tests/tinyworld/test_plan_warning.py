"""Warnings about plans of the tiny world that leave out a part of the request or have invented steps."""

from __future__ import annotations

from random import Random

from interleave_thinker.backend.core.types import Plan, Step
from interleave_thinker.backend.story.agents.plan_constraints import PlanConstraints, worded
from interleave_thinker.research.tinyworld.world.requests import random_story
from interleave_thinker.tinyworld.vocabulary import plan_warning

BOAT = "a sea page with a red boat at the middle"
REQUEST = "Draw a sea page with a red boat in the middle. Make it blue. Add a bird. Change it to night."


def plan_of(*prompts: str) -> Plan:
    return Plan(steps=tuple(Step(number=at, prompt=prompt) for at, prompt in enumerate(prompts, 1)))


def test_a_sentence_without_a_step_is_named() -> None:
    warning = plan_warning(REQUEST, plan_of(BOAT, "make the boat blue", "change the page to night"))
    assert warning.startswith('The plan leaves out: "Add a bird". Name the color and the place')
    whole = plan_of(BOAT, "make the boat blue", "add a red bird at the top", "change the page to night")
    assert plan_warning(REQUEST, whole) == ""


def test_a_recolored_thing_must_be_recolored_and_not_added() -> None:
    plan = plan_of(BOAT, "add a blue boat at the right")
    assert plan_warning("Draw a sea page with a red boat in the middle. Make it blue.", plan) == (
        'The plan leaves out: "Make it blue".'
    )


def test_more_steps_than_the_request_describes_are_reported() -> None:
    request = "Draw a sea page with a red boat in the middle. Then make it blue."
    plan = plan_of(BOAT, "make the boat blue")
    warning = plan_warning(worded(request, PlanConstraints(step_count=4), 3), plan)
    assert warning.startswith("The request describes 2 steps, but 4 were requested")
    assert plan_warning(worded(request, PlanConstraints(step_count=2, captions="short")), plan) == ""


def test_correct_plans_give_no_warning() -> None:
    for seed in range(50):
        story = random_story(Random(seed), "evaluate")
        asked = worded(story.text, PlanConstraints(step_count=len(story.plan.steps)))
        for text in (story.text, asked):
            assert plan_warning(text, story.plan) == "", text
