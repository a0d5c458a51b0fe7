"""The extra call that writes the cast of a finished plan: its question, its answers, and a failure."""

from __future__ import annotations

import json

import pytest

from interleave_thinker.backend.core.errors import ChatError
from interleave_thinker.backend.core.seams.chat_model import Reply
from interleave_thinker.backend.core.types import CastMember, Plan, Request, Step
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.story.agents.text_writers import CastWriter

REQUEST = Request(text="A story about {plan} and Mia")
PLAN = Plan(
    steps=(
        Step(number=1, prompt="Mia lights\na lamp"),
        Step(number=2, auxiliary_text="Good night."),
        Step(number=3, prompt="she sleeps"),
    ),
    warning="short",
)
MEMBERS = [
    {"name": "Mia", "kind": "Character", "traits": ["girl of  seven", "", "b", "c", "d", "e"]},
    {"name": "lamp", "kind": "prop", "traits": ["brass"]},
]
STEPS = [
    {"step_number": 1, "cast": ["mia", "lamp", "Mia"], "facts": ["The lamp is lit."]},
    {"step_number": 3, "cast": ["Mia", "moon"]},
    {"step_number": 9, "cast": ["Mia"]},
]


def answer(cast: object = MEMBERS, steps: object = STEPS) -> str:
    return f"<think>Two.</think>\n<answer>{json.dumps({'cast': cast, 'steps': steps})}</answer>"


def written(*replies: str | Reply, plan: Plan = PLAN) -> tuple[Plan, ScriptedChat]:
    chat = ScriptedChat(replies)
    return CastWriter(chat).write(REQUEST, plan), chat


def question(chat: ScriptedChat, number: int = 0) -> str:
    (message,) = chat.requests[number].messages
    return "".join(part for part in message.content if isinstance(part, str))


def test_the_plan_gets_the_cast_and_who_is_in_each_step() -> None:
    plan, chat = written(answer())
    assert plan.cast == (
        CastMember(name="Mia", traits=("girl of seven", "b", "c", "d")),
        CastMember(name="lamp", kind="prop", traits=("brass",)),
    )
    assert [step.cast for step in plan.steps] == [("Mia", "lamp"), None, ("Mia",)]
    assert [step.facts for step in plan.steps] == [("The lamp is lit.",), (), ()]
    assert Plan.model_validate(plan.model_dump()) == plan and plan.warning == "short"
    asked = question(chat)
    assert "1. Mia lights a lamp\n3. she sleeps" in asked, "text-only steps have no image"
    assert "A story about {plan} and Mia" in asked, "a slot in the request stays text"
    assert chat.requests[0].settings.grammar is None


def test_a_given_cast_stays_and_the_answer_says_who_is_present() -> None:
    given = PLAN.model_copy(update={"cast": (CastMember(name="Mia", traits=("red coat",)),)})
    plan, chat = written(answer(), plan=given)
    assert plan.cast == given.cast
    assert [step.cast for step in plan.steps] == [("Mia",), None, ("Mia",)]
    assert "- Mia (character): red coat" in question(chat)


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("I cannot.", "does not contain a cast"),
        (Reply(text=answer()[:60], tokens=20, finish="length"), "cut off after 20 tokens"),
        (answer(cast=[{"name": "Mia", "kind": "girl"}]), r"cast\[0\].kind is 'girl'"),
        (answer(cast=[MEMBERS[0], MEMBERS[0]]), "two members named 'Mia'"),
        (answer(cast=[{"name": "Mia; Tom", "kind": "prop"}]), "a name is one line"),
        (answer(steps="none"), "steps is 'none'"),
    ],
)
def test_an_unusable_reply_is_asked_for_once_more_with_the_reason(bad: str | Reply, problem: str) -> None:
    plan, chat = written(bad, answer())
    assert len(plan.cast) == 2
    again = chat.requests[1]
    assert again.settings.grammar == "cast" and again.settings.temperature > 0
    assert question(chat, 1).startswith(question(chat)) and "could not be used" in question(chat, 1)
    failed, _ = written(bad, bad)
    assert failed.model_copy(update={"warning": "short"}) == PLAN, "the plan stays without a cast"
    assert failed.warning.startswith("short The plan has no cast")
    import re

    assert re.search(problem, failed.warning)


def test_a_failing_backend_raises() -> None:
    with pytest.raises(ChatError):
        written()
    with pytest.raises(ChatError, match="longer than"):
        CastWriter(ScriptedChat([])).write(Request(text="a" * 100_000), PLAN)


def test_a_story_without_recurring_members_has_no_cast() -> None:
    assert written(answer(cast=[]))[0] == PLAN
