"""Plans in parts: their messages, what is passed from part to part, and replies that fail."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from PIL import Image

from interleave_thinker import AnswerError, Cancelled, Picture, Plan, Reply, Request
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.story.agents.plan_constraints import PlanConstraints, constrained_plan
from interleave_thinker.backend.story.agents.planner import IN_ONE_REPLY, Planner

PICTURE = Picture(Image.new("RGB", (8, 6), (10, 0, 0)))


def outline(count: int, first: int = 1, always: object = "A fox in a red coat.") -> str:
    lines = [f"{number}. The fox walks mile {number}." for number in range(first, first + count)]
    return f"<think>o</think><answer>{json.dumps({'outline': lines, 'always': always})}</answer>"


def step(number: int) -> dict[str, object]:
    """Every fifth step is text only."""
    drawn = None if number % 5 == 0 else f"the fox at milestone {number}"
    return {"step_number": number, "step_name": f"Mile {number}", "prompt": drawn, "auxiliary_text": "Words."}


def part(first: int, last: int, state: object | None = None) -> str:
    told: dict[str, object] = {"execution_plan": [step(number) for number in range(first, last + 1)]}
    told |= {} if state is None else {"state": state}
    return f"<think>p{first}</think><answer>{json.dumps(told)}</answer>"


def forty() -> list[str | Reply]:
    return [outline(40), *(part(at, at + 9, f"At mile {at + 9}.") for at in (1, 11, 21, 31))]


def questions(chat: ScriptedChat) -> list[str]:
    return [str(one.messages[0].content[-1]) for one in chat.requests]


def planned(
    replies: Sequence[str | Reply], text: str = "A walk in exactly 40 steps."
) -> tuple[Plan, ScriptedChat]:
    chat = ScriptedChat(replies)
    return Planner(chat).plan(Request(text=text)), chat


def test_a_long_plan_is_written_as_an_outline_and_parts() -> None:
    parts: list[str] = []
    chat = ScriptedChat(forty())
    plan = Planner(chat, on_part=parts.append).plan(Request(text="A walk in exactly 40 steps."))
    assert [one.number for one in plan.steps] == list(range(1, 41))
    assert [one.prompt for one in plan.steps[:5]] == [
        *(f"the fox at milestone {at}" for at in (1, 2, 3, 4)),
        None,
    ]
    assert plan.reasoning == "o\n\np1\n\np11\n\np21\n\np31"
    assert parts == ["outline", *(f"steps {at}-{at + 9} of 40" for at in (1, 11, 21, 31))]


def test_every_part_gets_the_outline_the_constants_and_the_state() -> None:
    _, chat = planned(forty())
    first, *parts = questions(chat)
    assert "exactly 40 lines" in first and "A walk in exactly 40 steps." in first
    for asked in parts:
        assert "all 40 steps:\n1. The fox walks mile 1.\n" in asked and "40. The fox walks mile 40." in asked
        assert "A fox in a red coat." in asked and "A walk in exactly 40 steps." in asked
    assert "Nothing is drawn yet" in parts[0] and "At mile" not in parts[0]
    # Step 10 is a text-only step, so the last image is that of step 9.
    assert "At mile 10.\nThe last picture, of step 9, was drawn with: the fox at milestone 9\n" in parts[1]
    assert "Write steps 11 to 20 now" in parts[1] and "true after step 20" in parts[1]
    assert "At mile 30." in parts[3] and "At mile 20." not in parts[3]
    own = default_prompt_set().planner_text.partition("Answer in exactly")[0]
    assert all(asked.startswith(own) and "{" not in asked.split("<answer>")[0] for asked in questions(chat))


@pytest.mark.parametrize(
    ("asked", "replies"),
    [("In exactly 12 steps: A walk.", 1), ("In exactly 13 steps: A walk.", 3), ("A walk.", 1)],
)
def test_the_requested_step_count_decides_how_to_plan(asked: str, replies: int) -> None:
    """13 requested steps are two parts of similar length; 15 steps that were not requested are one reply."""
    count = {1: 12 if "12" in asked else 15, 3: 13}[replies]
    script = [part(1, count)] if replies == 1 else [outline(13), part(1, 6), part(7, 13)]
    plan, chat = planned(script, asked)
    assert len(plan.steps) == count
    assert len(chat.requests) == replies
    assert IN_ONE_REPLY == 12


def test_images_are_shown_with_the_outline_and_every_part() -> None:
    chat = ScriptedChat([outline(20, first=4), part(4, 13, "s"), part(14, 23)])
    plan = Planner(chat).plan(Request(text="Go on from <image> in 20 pictures.", images=(PICTURE,)))
    assert [one.number for one in plan.steps] == list(range(4, 24))
    own = default_prompt_set().planner_images.partition("Answer in exactly")[0]
    for one in chat.requests:
        before, picture, after = one.messages[0].content
        assert picture == PICTURE and str(before).startswith(own) and str(before).endswith("Go on from ")
        assert str(after).startswith(" in 20 pictures.")


def test_only_an_unreadable_part_is_requested_again() -> None:
    replies = forty()
    replies[2:3] = ["Sure!", part(11, 20, "At mile 20.")]
    plan, chat = planned(replies)
    assert len(plan.steps) == 40 and len(chat.requests) == 6
    again = chat.requests[3]
    (message,) = again.messages
    assert message.content[:-1] == chat.requests[2].messages[0].content
    assert "The reply does not contain an execution_plan" in str(message.content[-1])


def test_a_part_numbered_from_one_counts_as_the_requested_part() -> None:
    replies = forty()
    replies[2] = part(1, 10)
    plan, _ = planned(replies)
    assert [one.number for one in plan.steps] == list(range(1, 41))
    assert plan.steps[10].prompt == "the fox at milestone 1"


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (0, r"^Outline: The reply does not contain an outline"),
        (2, r"^Steps 11-20 of 40: The reply does not contain an execution"),
    ],
)
def test_a_failed_plan_names_its_steps(at: int, said: str) -> None:
    replies = forty()
    replies[at : at + 1] = ["Sure!", "Sure!"]
    with pytest.raises(AnswerError, match=said):
        planned(replies)


def test_a_truncated_part_is_requested_in_halves() -> None:
    cut = Reply(text='<think>p</think><answer>{"execution_plan": [{"step', tokens=300, finish="length")
    replies = [outline(20), cut, part(1, 5, "five"), cut, part(6, 7), part(8, 10, "ten"), part(11, 20)]
    plan, chat = planned(replies, "In exactly 20 steps: A walk.")
    assert [one.number for one in plan.steps] == list(range(1, 21))
    assert "Write steps 8 to 10 now" in questions(chat)[5]


def test_a_truncated_single_step_raises_and_names_the_limit_to_raise() -> None:
    cut = Reply(text='{"execution_plan": [{"step', tokens=30, finish="length")
    with pytest.raises(AnswerError, match=r"^Steps 1-1 of 20: .*cut off after 30 tokens.*max_tokens"):
        planned([outline(20), *[cut] * 9], "In exactly 20 steps: A walk.")


def test_a_truncated_whole_plan_is_written_in_parts() -> None:
    cut = Reply(text='{"execution_plan": [{"step', tokens=16384, finish="length")
    plan, chat = planned([cut, outline(13), part(1, 6), part(7, 13)], "All that ever happened.")
    assert len(plan.steps) == 13
    assert "as many as it needs and no more" in questions(chat)[1]


def test_an_outline_of_another_length_is_requested_again_and_the_closer_one_used() -> None:
    right, chat = planned([outline(38), *forty()])
    assert len(right.steps) == 40
    assert "Your outline has 38 lines. The request asks for exactly 40" in questions(chat)[1]
    assert "mile 38" not in questions(chat)[1] and chat.requests[1].settings.grammar == "outline"
    for second in (outline(20), "Sure!"):
        near, _ = planned([outline(13), second, part(1, 6), part(7, 13)], "In exactly 14 steps: A walk.")
        assert len(near.steps) == 13
    many = [outline(20), outline(14), part(1, 7), part(8, 14)]
    assert len(planned(many, "In 13 to 15 steps: A walk.")[0].steps) == 14
    assert len(planned(many[1:], "In 13 to 15 steps: A walk.")[1].requests) == 3


def test_a_long_plan_of_another_length_gets_a_warning_and_no_third_outline() -> None:
    chat = ScriptedChat([outline(13), outline(13), part(1, 6), part(7, 13)])
    plan = constrained_plan(Planner(chat), Request(text="In exactly 14 steps: A walk."), PlanConstraints())
    assert len(plan.steps) == 13 and len(chat.requests) == 4
    assert plan.warning == "14 steps were requested, but the planner wrote 13."


def test_every_reply_can_be_held_to_its_grammar() -> None:
    chat = ScriptedChat(["Sure!", *forty()])
    Planner(chat, constrained_decoding="always").plan(Request(text="In 40 steps: A walk."))
    assert [one.settings.grammar for one in chat.requests] == ["outline", "outline", *["part"] * 4]


@pytest.mark.parametrize("when", ["within", "between"])
def test_planning_can_be_cancelled_within_and_between_replies(when: str) -> None:
    chat = ScriptedChat(forty())
    heard: list[str] = []

    def cancel(text: str) -> None:
        heard.append(text)
        parts = heard.count("")
        if parts == 3 and (when == "between" or text):
            raise Cancelled("stop")

    with pytest.raises(Cancelled):
        Planner(chat).plan(Request(text="In 40 steps: A walk."), cancel)
    assert len(chat.requests) == {"within": 3, "between": 2}[when]
