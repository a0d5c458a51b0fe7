"""What a person wants of a plan besides the request: told in words, checked where it can be counted."""

from __future__ import annotations

import json

import pytest

from interleave_thinker.backend.agents.plan_constraints import PlanConstraints, plan_as_wished
from interleave_thinker.backend.agents.planner import Planner
from interleave_thinker.backend.chat.scripted import ScriptedChat
from interleave_thinker.backend.errors import AnswerError
from interleave_thinker.backend.types import Request


def reply(count: int, text: str | None = "Words.") -> str:
    steps = [
        {"step_number": number, "step_name": "", "prompt": "a house", "auxiliary_text": text}
        for number in range(1, count + 1)
    ]
    steps[-1] |= {"prompt": None, "auxiliary_text": "The end."}
    return f"<think>.</think><answer>{json.dumps({'execution_plan': steps})}</answer>"


def asked(chat: ScriptedChat) -> list[str]:
    return [str(one.messages[0].content[-1]) for one in chat.requests]


def test_a_plan_of_the_wrong_length_is_asked_for_once_more() -> None:
    chat = ScriptedChat([reply(5), reply(3)])
    plan = plan_as_wished(Planner(chat), Request(text="A tale."), PlanConstraints(step_count=3))
    assert len(plan.steps) == 3
    first, second = asked(chat)
    assert "In exactly 3 steps: A tale." in first and "In exactly 3 steps, not 5: A tale." in second


def test_a_second_plan_of_the_wrong_length_is_an_error() -> None:
    with pytest.raises(
        AnswerError, match=r"3 steps were asked for, but the agent planned 5 and then 4\..*or 0"
    ):
        plan_as_wished(
            Planner(ScriptedChat([reply(5), reply(4)])),
            Request(text="A tale."),
            PlanConstraints(step_count=3),
        )


def test_without_wishes_the_request_is_told_as_it_is() -> None:
    chat = ScriptedChat([reply(2)])
    plan_as_wished(Planner(chat), Request(text="A tale."), PlanConstraints())
    assert asked(chat)[0].rstrip().endswith("\nA tale.")


def test_captions_are_asked_for_in_words_and_none_means_none() -> None:
    chat = ScriptedChat([reply(3), reply(3)])
    short = plan_as_wished(Planner(chat), Request(text="A tale."), PlanConstraints(captions="short"))
    none = plan_as_wished(Planner(chat), Request(text="A tale."), PlanConstraints(captions="none"))
    assert [step.auxiliary_text for step in short.steps] == ["Words.", "Words.", "The end."]
    assert [step.auxiliary_text for step in none.steps] == [None, None, "The end."]
    assert "A tale. Write a short caption" in asked(chat)[0] and "A tale. No captions." in asked(chat)[1]
