"""Prompt enhancer, cast writer and step rewriter: their questions, and the replies that they can use."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from support.small_teachers import SmallChat

from interleave_thinker import ChatError, Message, Reply, ReplySettings, SettingsError
from interleave_thinker.backend.core.prompts.prompt_set import MAX_TEMPLATE, enhancer_prompts
from interleave_thinker.backend.core.types import MAX_TEXT, CastMember, Enhancement, Plan, Request, Step
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.story.agents.text_writers import (
    MAX_ENHANCED,
    CastWriter,
    PromptEnhancer,
    StepRewriter,
)

CUT_OFF = Reply(text="A red hou", tokens=3, finish="length")


def made(*replies: str | Reply, is_edit: bool = False) -> tuple[Enhancement, ScriptedChat]:
    chat = ScriptedChat(replies)
    return PromptEnhancer(chat).enhance("a {prompt} house", is_edit), chat


def asked(chat: ScriptedChat, number: int = 0) -> Sequence[Message]:
    return chat.requests[number].messages


def text_of(message: Message) -> str:
    return "".join(part for part in message.content if isinstance(part, str))


@pytest.mark.parametrize("is_edit", [False, True])
def test_the_own_template_begins_alike_for_every_prompt(is_edit: bool) -> None:
    """So that a server's prompt cache is used; and texts in the prompt are not slots."""
    own = enhancer_prompts()
    template = own.edit if is_edit else own.text
    _, chat = made("A red house.", is_edit=is_edit)
    (question,) = asked(chat)
    assert question.role == "user"
    constant, after = template.split("{prompt}")
    assert text_of(question) == f"{constant}a {{prompt}} house{after}" and len(constant) > 20 * len(after)
    assert chat.requests[0].settings.max_tokens == PromptEnhancer.max_tokens


@pytest.mark.parametrize(
    "reply",
    [
        "A red house.",
        '<think>It is red, I "think".</think>\nA red house.',
        "[THINK]It is red.[/THINK] A red house.",
        "<think>a</think><think>b</think><answer>A red house.",
        '"A red house."',
        "```text\nA red house.\n```",
        Reply(text="so red</think>A red house.", thinking=True),
    ],
)
def test_the_prompt_is_read_from_the_reply(reply: str | Reply) -> None:
    assert made(reply)[0] == Enhancement(prompt="A red house.")


@pytest.mark.parametrize(
    "text", ['"One" and "two"', '{"scene": "a house", "mood": {}}', "a\nb", "<image2> on the left"]
)
def test_quotes_lines_and_json_in_a_prompt_stay(text: str) -> None:
    assert made(text)[0].prompt == text


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "does not contain a prompt"),
        ("<think>a thought without an end", "does not contain a prompt"),
        (CUT_OFF, "cut off after 3 tokens"),
        ("x" * (MAX_ENHANCED + 1), f"maximum is {MAX_ENHANCED}"),
    ],
)
def test_an_unusable_reply_is_asked_again_and_then_the_prompt_stays(reply: str | Reply, reason: str) -> None:
    enhancement, chat = made(reply, "A red house.")
    assert enhancement == Enhancement(prompt="A red house.") and len(chat.requests) == 2
    again = chat.requests[1]
    assert reason in text_of(again.messages[-1]) and text_of(again.messages[-1]).startswith(
        text_of(asked(chat)[0])
    )
    assert again.settings.temperature > 0 and again.settings.seed == 1, "greedy decoding would repeat it"
    kept, chat = made(reply, reply)
    assert kept.prompt == "a {prompt} house" and reason in kept.warning and len(chat.requests) == 2


def test_a_failing_backend_and_a_prompt_that_is_too_long_raise() -> None:
    with pytest.raises(ChatError, match="0 replies"):
        made()
    with pytest.raises(ChatError, match="longer than"):
        PromptEnhancer(ScriptedChat(["?"])).enhance("x" * MAX_TEXT, False)
    with pytest.raises(SettingsError, match="maximum"):
        enhancer_prompts("x" * (MAX_TEMPLATE + 1))


def test_the_identity_contains_model_templates_and_settings() -> None:
    chat = ScriptedChat(["A"])
    ones = [
        PromptEnhancer(chat),
        PromptEnhancer(ScriptedChat(["B"])),
        PromptEnhancer(chat, enhancer_prompts("Other")),
        PromptEnhancer(chat, enhancer_prompts(edit="Other")),
        PromptEnhancer(chat, settings=ReplySettings(max_tokens=9)),
        PromptEnhancer(chat, settings=ReplySettings(temperature=0.5)),
    ]
    assert len({one.identity for one in ones}) == len(ones)
    assert PromptEnhancer(chat).identity == ones[0].identity


class OnCard(ScriptedChat):
    """A scripted chat with weights that can be offloaded."""

    weights: object = None

    def __init__(self, weights: object) -> None:
        super().__init__(["A red house.", "", ""])
        self.weights, self.offloaded = weights, 0

    def offload(self) -> None:
        self.offloaded += 1


def test_it_is_offloaded_after_each_answer_unless_it_shares_the_critics_weights() -> None:
    chat, staying = OnCard("weights"), [OnCard("others")]
    enhancer = PromptEnhancer(chat, staying=staying)
    enhancer.enhance("a house", False)
    assert chat.offloaded == 1
    assert enhancer.enhance("a tree", False).warning and chat.offloaded == 2, "once for two replies"
    with pytest.raises(ChatError):
        enhancer.enhance("a dog", False)
    assert chat.offloaded == 3
    shared = OnCard("others")
    PromptEnhancer(shared, staying=staying).enhance("a house", False)
    assert shared.offloaded == 0


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


STEP_PLAN = Plan(
    steps=(
        Step(number=1, prompt="a red boat\non the sea"),
        Step(number=2, auxiliary_text="Words."),
        Step(number=3, prompt="add a fish"),
    )
)


class Saying(SmallChat):
    """Gives these replies, and keeps the questions."""

    def __init__(self, *replies: Reply) -> None:
        super().__init__("rewriter")
        self.replies, self.asked = list(replies), []

    def reply(self, messages: list[Message], settings: ReplySettings, on_token: object = None) -> Reply:  # type: ignore[override]
        self.asked.append(("".join(map(str, messages[-1].content)), settings))
        return self.replies.pop(0)


def said(text: str, finish: str = "end") -> Reply:
    return Reply(text=text, tokens=9, question_tokens=9, finish=finish)  # type: ignore[arg-type]


def test_the_plan_the_failed_step_and_the_problem_are_told() -> None:
    chat = Saying(said('<think>one fish</think>"A red boat on the sea and a fish."'))
    assert (
        StepRewriter(chat)(STEP_PLAN, STEP_PLAN.steps[2], "The fish\nis missing.")
        == "A red boat on the sea and a fish."
    )
    (question, settings) = chat.asked[0]
    assert "1. a red boat on the sea\n3. add a fish\n" in question and "The failed step: 3" in question
    assert question.rstrip().endswith("The fish is missing.") and settings.max_tokens == 1024


def test_an_unusable_reply_is_asked_for_once_more() -> None:
    chat = Saying(said("A boat and", "length"), said("A boat and a fish."))
    assert StepRewriter(chat)(STEP_PLAN, STEP_PLAN.steps[2], "") == "A boat and a fish."
    assert "It was cut off after 9 tokens." in chat.asked[1][0]
    assert StepRewriter(Saying(said("<think>"), said("<think>")))(STEP_PLAN, STEP_PLAN.steps[2], "") is None
