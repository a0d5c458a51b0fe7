"""The chat interface with a real llama.cpp server and a GGUF model with any weights.

LLAMA_SERVER names the server, LLAMA_TEST_MODEL the model with its projector next to it.
benchmarks/agent_peers.py creates one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from support.tiny_checkpoint import question

from interleave_thinker.backend.chat import ReplySettings, open_chat
from interleave_thinker.backend.errors import Cancelled, ChatError

MODEL = os.environ.get("LLAMA_TEST_MODEL", "")
pytestmark = pytest.mark.skipif(
    not (MODEL and os.environ.get("LLAMA_SERVER")), reason="LLAMA_SERVER and LLAMA_TEST_MODEL name none"
)
SHORT = ReplySettings(max_tokens=12)


@pytest.fixture(scope="module")
def chat() -> Iterator[Any]:
    opened: Any = open_chat(f"llamacpp:{MODEL}", threads=1, gpu_layers=0, context=2048)
    yield opened
    opened.server.release()


def test_a_real_server_sees_images_streams_and_is_reproducible(chat: Any) -> None:
    pieces: list[str] = []
    reply = chat.reply(question(20, 200), SHORT, pieces.append)
    assert reply.tokens == 12 and reply.finish == "length" and "".join(pieces) == reply.text
    assert chat.reply(question(20, 200), SHORT).text == reply.text
    # Log-probabilities are given, and do not change the reply.
    watched = chat.reply(question(20, 200), SHORT.model_copy(update={"watch_verdict": True}))
    assert watched.text == reply.text and chat.server.process.starts == 1


def test_a_cancelled_reply_leaves_a_server_that_answers(chat: Any) -> None:
    def cancel(text: str) -> None:
        if text:
            raise Cancelled("stop")

    with pytest.raises(Cancelled):
        chat.reply(question(20, 200), SHORT.model_copy(update={"max_tokens": 900}), cancel)
    assert chat.reply(question(20), SHORT).finish == "length"


def test_a_question_that_is_too_long_raises_with_advice(chat: Any) -> None:
    with pytest.raises(ChatError, match=r"Raise context"):
        chat.reply(question(20, text="a word " * 4000), SHORT)


def test_a_real_server_starts_again_after_stopping(chat: Any) -> None:
    before = chat.reply(question(200), SHORT).text
    chat.server.release()
    assert not chat.server.process.runs
    assert chat.reply(question(200), SHORT).text == before


def test_a_broken_file_reports_the_reason_of_llama_cpp(tmp_path: Any) -> None:
    from support.fake_llama_server import write_agent

    model = write_agent(tmp_path)
    broken: Any = open_chat(f"llamacpp:{model}", gpu_layers=0)
    with pytest.raises(ChatError, match=r"ended at its start.*(load|failed|gguf)"):
        broken.reply(question(200), SHORT)
