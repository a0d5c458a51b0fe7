"""The critic's answers to single items of a checklist, with and without probabilities."""

from __future__ import annotations

import pytest
from support.small_agents import TrainedChat

from interleave_thinker import Critic, Picture, Reply, ReplySettings, SettingsError
from interleave_thinker.backend.core.answers.reading import write_verdict
from interleave_thinker.backend.core.prompts.agent_card import AgentCard, KindReliability
from interleave_thinker.backend.core.types import ChecklistItem, Verdict
from interleave_thinker.backend.models.chat.scripted import ScriptedChat

BEFORE, AFTER = Picture.white((8, 6)), Picture.white((6, 8))
BOATS = ChecklistItem(text="there are two boats.", kind="count")
RED = ChecklistItem(text="the boats are red", kind="color")
CHANCE = KindReliability(items=80, true=40, yes_of_true=0.55, no_of_false=0.5, low=0.42)
GOOD = KindReliability(items=80, true=40, yes_of_true=0.95, no_of_false=0.9, low=0.85)


def test_each_item_is_one_question_after_the_same_images_and_prompt() -> None:
    chat = ScriptedChat([Reply(text="Yes", probability=0.9), Reply(text="No", probability=0.2)])
    items = Critic(chat).check(BEFORE, AFTER, "two red boats", (BOATS, RED))
    assert [(one.text, one.kind, one.probability, one.passed) for one in items] == [
        ("there are two boats.", "count", 0.9, True),
        ("the boats are red", "color", 0.2, False),
    ]
    first, second = (request.messages[0].content for request in chat.requests)
    assert first[:2] == second[:2] == (BEFORE, AFTER)
    texts = [str(content[2]) for content in (first, second)]
    assert texts[0].split("Is this")[0] == texts[1].split("Is this")[0], "a cached beginning is shared"
    assert "two red boats" in texts[0] and "there are two boats?" in texts[0] and "are red?" in texts[1]
    assert all(request.settings.watch_yes_no for request in chat.requests)
    assert all(not request.settings.watch_verdict for request in chat.requests)


@pytest.mark.parametrize(("word", "probability", "passed"), [("No", 0.5, True), ("Yes", 0.49, False)])
def test_the_probability_decides_and_not_the_word(word: str, probability: float, passed: bool) -> None:
    chat = ScriptedChat([Reply(text=word, probability=probability)])
    assert [one.passed for one in Critic(chat).check(BEFORE, AFTER, "a", (RED,))] == [passed]


def test_a_white_image_replaces_a_missing_source() -> None:
    chat = ScriptedChat(["yes"])
    Critic(chat).check(None, AFTER, "a", (RED,))
    assert chat.requests[0].messages[0].content[0] == Picture.white(AFTER.size)


TRUE = (
    "Yes.|yes, two|Yes it is|Y|True|**yes**|Answer: yes|<answer>Yes</answer>|是|是的。|對|はい|네, 맞습니다"
    "|Oui.|Sí|Да|sim"
    "|Evet|Ja.|YEſ|Ｙｅｓ|Sİ"
    "|yes, there are no boats|Correct|<think>Two or no boats?</think>Yes|Two boats are there.\nYes."
)
FALSE = (
    "**no**| no, two|N|False|Nope|nah|否|不是|不，一只|いいえ|아니요|Non|Нет|não"
    "|Hayır|HAYIR|nein|The answer is no."
    "|<think>yes</think> No!|No - one boat"
)
NEITHER = (
    "|<think>|<think>yes|Nothing|Maybe|Yes/No|yes or no|Yes, no.|no, yes|是否|是/否"
    "|No boats are red|Yesterday|N/A|Y/N"
    "|I see two boats|yes\nno|<think>a</think>|不一定|{}"
)
REPLIES = [
    (text, answer)
    for texts, answer in ((TRUE, True), (FALSE, False), (NEITHER, None))
    for text in texts.split("|")
]


@pytest.mark.parametrize(("text", "answer"), REPLIES)
def test_an_answer_is_read_or_asked_for_again(text: str, answer: bool | None) -> None:
    chat = ScriptedChat([text, text])
    item = Critic(chat).check(BEFORE, AFTER, "a", (RED,))[0]
    assert (item.passed, item.probability, item.unanswered) == (answer, None, answer is None)
    assert len(chat.requests) == (2 if answer is None else 1)


def test_the_second_answer_counts_and_has_room_for_thoughts() -> None:
    chat = ScriptedChat(["<think>One", Reply(text="<think>One, two.</think>\n\nNo", probability=0.9)])
    item = Critic(chat).check(BEFORE, AFTER, "a", (RED,))[0]
    assert (item.passed, item.probability, item.unanswered) == (False, None, False)
    first, second = (request.settings.limit for request in chat.requests)
    assert first == 4 and second > 500


def test_p_of_yes_says_nothing_about_another_word() -> None:
    for text, passed in (("Maybe", None), ("是", True)):
        replies = [Reply(text=text, probability=0.1)] * 2
        item = Critic(ScriptedChat(replies)).check(BEFORE, AFTER, "a", (RED,))[0]
        assert (item.probability, item.passed) == (None, passed)


def test_a_prompt_that_is_too_long_is_one_error() -> None:
    with pytest.raises(SettingsError, match="longer than"):
        Critic(ScriptedChat(["yes"])).check(BEFORE, AFTER, "a" * 100_000, (RED,))


def test_a_kind_at_chance_is_shown_and_never_fails() -> None:
    replies: list[str | Reply] = [Reply(text="No", probability=0.1), Reply(text="No", probability=0.1)]
    chat = TrainedChat(replies, AgentCard(reliability={"count": CHANCE, "color": GOOD}))
    count, color = Critic(chat).check(BEFORE, AFTER, "a", (BOATS, RED))
    assert (count.probability, count.passed) == (0.1, None)
    assert (color.probability, color.passed) == (0.1, False)


def test_verdicts_and_identity_stay_as_they_were() -> None:
    answer = write_verdict(Verdict(success=True, refined_prompt="a", reasoning="fine"))
    with_card = Critic(TrainedChat([answer], AgentCard(reliability={"count": CHANCE})))
    without = Critic(ScriptedChat([answer]))
    assert with_card.identity == without.identity
    assert "items" not in with_card.judge(BEFORE, AFTER, "a", "a").model_dump()
    assert "watch_yes_no" not in ReplySettings().key()
