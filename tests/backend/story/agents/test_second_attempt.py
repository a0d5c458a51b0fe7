"""The second attempt of an agent: the problem is named, the first reply is not shown, and it is sampled."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.core.errors import AnswerError
from interleave_thinker.backend.core.prompts.prompt_set import PromptSet
from interleave_thinker.backend.core.types import Plan, Request, Step
from interleave_thinker.backend.models.chat import Reply, ReplySettings
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.story.agents.planner import Planner

PLAN = Plan(steps=(Step(number=1, prompt="a boat"),))
SET = PromptSet(planner_text="T {text_input}", planner_images="I {text_input}", critic="C")
COPIED = {"step_number": 1, "step_name": "A", "prompt": "What the image model is told, or null"}
PLACEHOLDERS = f"<answer>{json.dumps({'execution_plan': [COPIED]})}</answer>"


def attempts(
    first: str | Reply, settings: ReplySettings | None = None, parts: bool = True, **options: Any
) -> ScriptedChat:
    """Plan with the pack's own prompt set, as it is found for a model without one."""
    chat = ScriptedChat([first, write_plan(PLAN)])
    planner = Planner(chat, settings=settings, **options)
    if not parts:
        planner.prompt_set = planner.prompt_set.in_one_reply()
    assert planner.plan(Request(text="a story")).steps == PLAN.steps
    return chat


@pytest.mark.parametrize(
    ("first", "problem", "hidden"),
    [
        (PLACEHOLDERS, "Step 1 of the plan is a copy of the example", "image model is told, or"),
        ("Sure! A boat it is.", "The reply does not contain an execution_plan", "boat it is"),
        (
            '{"execution_plan": [{"step_number": "first", "prompt": "a red boat"}]}',
            "execution_plan[0].step_number is 'first'; it must be a whole number",
            "red boat",
        ),
        (
            Reply(text="<think>on and on", tokens=9, finish="length"),
            "was cut off after 9 tokens",
            "on and on",
        ),
    ],
)
def test_the_problem_is_named_and_the_first_reply_is_not_shown(
    first: str | Reply, problem: str, hidden: str
) -> None:
    before, again = attempts(first, parts=False).requests
    (question,), (message,) = before.messages, again.messages
    assert message.role == "user" and message.content[:-1] == question.content
    reason = str(message.content[-1])
    assert problem in reason
    assert hidden not in reason and '"..."' not in reason, "a small model copies what it sees"


def test_an_agent_with_its_own_prompt_set_sees_its_first_reply() -> None:
    chat = ScriptedChat([PLACEHOLDERS, write_plan(PLAN)], SET)
    Planner(chat).plan(Request(text="a story"))
    message, reply, reason = chat.requests[1].messages
    assert message == chat.requests[0].messages[0] and reply.content == (PLACEHOLDERS,)
    assert str(reason.content[0]).startswith("Your answer could not be read. Step 1 of the plan is a copy")
    assert (chat.requests[1].settings.temperature, chat.requests[1].settings.seed) == (0.7, 0)
    planner = Planner(chat)
    assert planner.for_second_answer() is planner


@pytest.mark.parametrize(
    ("given", "temperature", "seed"),
    [({}, 0.7, 1), ({"temperature": 1.2, "seed": 5}, 1.2, 6), ({"temperature": 0.4, "seed": 2**53}, 0.4, 1)],
)
def test_the_second_attempt_is_sampled_with_another_seed(
    given: dict[str, Any], temperature: float, seed: int
) -> None:
    settings = attempts("Sure!", ReplySettings(**given)).requests[1].settings
    assert (settings.temperature, settings.seed, settings.grammar) == (temperature, seed, "plan")
    assert attempts("Sure!", constrained_decoding="never").requests[1].settings.grammar is None


def test_a_resumed_planner_asks_the_same_second_question() -> None:
    first, second = attempts(PLACEHOLDERS), attempts(PLACEHOLDERS)
    assert first.requests == second.requests
    planner = Planner(first)
    assert planner.for_second_answer().settings == planner.for_second_answer().settings
    assert planner.for_second_answer().identity != planner.identity, "parts of two plans are kept apart"


def test_placeholders_in_both_replies_are_an_error() -> None:
    with pytest.raises(AnswerError, match="copy of the example"):
        Planner(ScriptedChat([PLACEHOLDERS] * 2)).plan(Request(text="a story"))
