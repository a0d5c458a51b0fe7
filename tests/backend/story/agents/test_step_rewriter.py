"""The question about a failed step, and the replies that are used."""

from __future__ import annotations

from support.small_teachers import SmallChat

from interleave_thinker.backend.core.seams.chat_model import Message, Reply, ReplySettings
from interleave_thinker.backend.core.types import Plan, Step
from interleave_thinker.backend.story.agents.text_writers import StepRewriter

PLAN = Plan(
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
        StepRewriter(chat)(PLAN, PLAN.steps[2], "The fish\nis missing.")
        == "A red boat on the sea and a fish."
    )
    (question, settings) = chat.asked[0]
    assert "1. a red boat on the sea\n3. add a fish\n" in question and "The failed step: 3" in question
    assert question.rstrip().endswith("The fish is missing.") and settings.max_tokens == 1024


def test_an_unusable_reply_is_asked_for_once_more() -> None:
    chat = Saying(said("A boat and", "length"), said("A boat and a fish."))
    assert StepRewriter(chat)(PLAN, PLAN.steps[2], "") == "A boat and a fish."
    assert "It was cut off after 9 tokens." in chat.asked[1][0]
    assert StepRewriter(Saying(said("<think>"), said("<think>")))(PLAN, PLAN.steps[2], "") is None
