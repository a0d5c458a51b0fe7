"""A plan in parts with every kind of agent, with and without images in the request.

The agents are a scripted one, one on a server, and a local model whose tokens are decided here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support import tiny_checkpoint
from support.chat_server import chat_server

from interleave_thinker.backend.core.errors import AnswerError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.core.types import Request
from interleave_thinker.backend.models.chat import ReplySettings, open_chat
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.story.agents.planner import Planner

PICTURE = Picture(Image.new("RGB", (32, 32), (200, 60, 60)))
OWN = default_prompt_set()
SHORT = OWN.model_copy(
    update={
        name: f"Plan. {OWN.planner_text[OWN.planner_text.index('Answer in exactly') :]}"
        for name in ("planner_text", "planner_images")
    }
)
"""The pack's forms after few words: a model of this size reads byte by byte."""


def steps(numbers: range) -> str:
    made = [
        {"step_number": at} | ({"auxiliary_text": "Night."} if at == 7 else {"prompt": f"fox {at}"})
        for at in numbers
    ]
    return json.dumps({"execution_plan": made, "state": f"at {numbers[-1]}"})


REPLIES = (
    json.dumps({"outline": [f"{at}. mile {at}" for at in range(1, 14)], "always": "ink"}),
    steps(range(1, 7)),
    "Which fox?",
    steps(range(7, 14)),
)


class Decided:
    """A logits processor that allows only the next token of the given answers."""

    def __init__(self, tokenizer: Any, end: int, answers: Sequence[str]) -> None:
        self._answers = [(*tokenizer(text, add_special_tokens=False)["input_ids"], end) for text in answers]
        self._said = 0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        token = self._answers[0][self._said]
        self._said += 1
        if self._said == len(self._answers[0]):
            self._answers.pop(0)
            self._said = 0
        decided = scores.new_full(scores.shape, float("-inf"))
        decided[:, token] = scores[:, token]
        return decided


@contextmanager
def scripted(folder: Path, replies: Sequence[str]) -> Iterator[Any]:
    yield ScriptedChat(replies)


@contextmanager
def served(folder: Path, replies: Sequence[str]) -> Iterator[Any]:
    with chat_server("") as server:
        server.script = list(replies)
        yield open_chat(f"openai:{server.spec}")


@contextmanager
def local(folder: Path, replies: Sequence[str]) -> Iterator[Any]:
    chat: Any = open_chat(f"transformers:{tiny_checkpoint.build_checkpoint(folder / 'tiny')}", device="cpu")
    tokenizer = chat.base.processor.tokenizer
    chat.processors = [Decided(tokenizer, chat.model.generation_config.eos_token_id, replies)]
    yield chat


KINDS: dict[str, Callable[[Path, Sequence[str]], AbstractContextManager[Any]]] = {
    "scripted": scripted,
    "served": served,
    "local": local,
}


@pytest.mark.parametrize("images", [(), (PICTURE,)], ids=["words", "image"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_agent_writes_a_plan_in_parts(
    kind: str, images: tuple[Picture, ...], tmp_path: Path
) -> None:
    parts: list[str] = []
    settings = ReplySettings(max_tokens=900)
    with KINDS[kind](tmp_path, REPLIES) as chat:
        planner = Planner(chat, SHORT, settings, constrained_decoding="never", on_part=parts.append)
        plan = planner.plan(Request(text="In 13 steps: a fox.", images=images))
    assert [step.number for step in plan.steps] == list(range(1, 14))
    assert [step.prompt for step in plan.steps[5:8]] == ["fox 6", None, "fox 8"]
    assert parts == ["outline", "steps 1-6 of 13", "steps 7-13 of 13"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_failed_agent_names_the_steps(kind: str, tmp_path: Path) -> None:
    with KINDS[kind](tmp_path, (*REPLIES[:3], "What?")) as chat:
        planner = Planner(chat, SHORT, ReplySettings(max_tokens=900), constrained_decoding="never")
        with pytest.raises(AnswerError, match=r"^Steps 7-13 of 13: The reply does not contain"):
            planner.plan(Request(text="In 13 steps: a fox."))
