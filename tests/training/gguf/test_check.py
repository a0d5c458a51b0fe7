"""A GGUF agent is checked by the answers of its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli_calls import verdict_reply
from support.small_agents import STORY

from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.core.prompts.agent_card import AgentCard
from interleave_thinker.backend.core.prompts.trained_with import TrainedWith
from interleave_thinker.backend.core.seams.chat_model import ChatModel, Reply
from interleave_thinker.training.trainer import gguf as check
from interleave_thinker.training.trainer.gguf import GgufSettings

TRUE, FALSE, PLAN = verdict_reply(True), verdict_reply(False), write_plan(STORY)


UNREADABLE = ("?", "no plan")


class Chat(ChatModel):
    """Gives these answers in turn."""

    identity = "made"

    def __init__(self, answers: list[str]) -> None:
        # An agent asks once more if it cannot read an answer.
        self.answers = [one for answer in answers for one in [answer] * (1 + (answer in UNREADABLE))]

    def reply(self, messages, settings, on_token=None) -> Reply:
        assert settings.max_pixels == 4096
        return Reply(text=self.answers.pop(0))


@pytest.mark.parametrize(
    ("role", "source", "converted", "same", "said"),
    [
        ("critic", [TRUE, FALSE, TRUE, FALSE], [TRUE, FALSE, TRUE, FALSE], True, "4 of 4"),
        ("critic", [TRUE, FALSE, TRUE, FALSE], [TRUE, TRUE, TRUE, "?"], False, "2 of 4"),
        ("critic", ["?"] * 4, ["?"] * 4, False, "the safetensors do not answer"),
        ("planner", [PLAN], [PLAN], True, "1 of 1"),
        ("planner", [PLAN], ["no plan"], False, "WARNING: not every answer is the same"),
    ],
)
def test_answers_are_compared_by_their_meaning(
    role, source: list[str], converted: list[str], same: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chats = {"transformers": Chat(source), "llamacpp": Chat(converted)}
    monkeypatch.setattr(check, "open_chat", lambda name, **options: chats[name.partition(":")[0]])
    record = TrainedWith("mine", image_pixels=4096, card=AgentCard(role=role))
    lines: list[str] = []
    found = check.check_answers(Path("mine"), [Path("mine.gguf")], record, GgufSettings(), lines.append)
    assert found == same and said in "\n".join(lines)
    assert not any(chat.answers for chat in chats.values()), "every question was asked"
