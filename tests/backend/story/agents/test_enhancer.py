"""The prompt enhancer: its question, the replies that it accepts, and those that it cannot use."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from interleave_thinker.backend.core.errors import ChatError, SettingsError
from interleave_thinker.backend.core.prompts.prompt_set import MAX_TEMPLATE, enhancer_prompts
from interleave_thinker.backend.core.seams.chat_model import Message, Reply, ReplySettings
from interleave_thinker.backend.core.types import MAX_TEXT, Enhancement
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.story.agents.text_writers import MAX_ENHANCED, PromptEnhancer

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


def test_text_and_edit_have_templates_of_their_own() -> None:
    own = enhancer_prompts()
    assert own.text != own.edit and "stays" in own.edit
    mixed = enhancer_prompts(edit="Edit: {prompt}")
    assert (mixed.text, mixed.edit) == (own.text, "Edit: {prompt}")


def test_a_makers_prompt_without_a_slot_is_the_system_message() -> None:
    chat = ScriptedChat(["?", "A red house."])
    PromptEnhancer(chat, enhancer_prompts("You upsample prompts.")).enhance("a house", False)
    assert [(one.role, text_of(one)) for one in asked(chat)] == [
        ("system", "You upsample prompts."),
        ("user", "a house"),
    ]


@pytest.mark.parametrize(
    "reply",
    [
        "A red house.",
        "  A red house.\n",
        '<think>It is red, I "think".</think>\nA red house.',
        "<answer>A red house.</answer>",
        "[THINK]It is red.[/THINK] A red house.",
        "<think>a</think><think>b</think><answer>A red house.",
        '"A red house."',
        "“A red house.”",
        "```text\nA red house.\n```",
        Reply(text="so red</think>A red house.", thinking=True),
    ],
)
def test_the_prompt_is_read_from_the_reply(reply: str | Reply) -> None:
    assert made(reply)[0] == Enhancement(prompt="A red house.")


@pytest.mark.parametrize(
    "text",
    [
        '"One" and "two"',
        'A sign: "JAM"',
        '{"scene": "a house", "mood": {}}',
        "a\nb",
        "<image2> on the left",
        "A <b>red</b> house",
    ],
)
def test_quotes_lines_and_json_in_a_prompt_stay(text: str) -> None:
    assert made(text)[0].prompt == text


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "does not contain a prompt"),
        ("<think>only a thought</think>", "does not contain a prompt"),
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
