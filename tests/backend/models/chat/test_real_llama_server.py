"""The chat interface with a real llama-server: the one in LLAMA_SERVER or on the PATH.

Each test runs with a tiny model of random weights, and with the model in INTERLEAVE_REAL_GGUF if that is set
(`-m real` selects these alone). If that model has a projector next to it, it is also shown images.
"""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest
from support.llama_models import need_server, opened, real_model, tiny_model
from support.tiny_checkpoint import question

from interleave_thinker import Cancelled, ChatError, Message, ReplySettings
from interleave_thinker.backend.models.chat.llamacpp_chat import LlamaCppChat

CONTEXT = 16384
SHORT = ReplySettings(max_tokens=12)
LONG = ReplySettings(max_tokens=8000)
"""Even the tiny model needs seconds for it, and the answer does not fit into the buffers of a connection."""


@pytest.fixture(scope="module", params=["tiny", pytest.param("real", marks=pytest.mark.real)])
def chat(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaCppChat]:
    need_server()
    model = real_model() if request.param == "real" else tiny_model(tmp_path_factory.mktemp("tiny"))
    with opened(model, context=CONTEXT) as agent:
        yield agent


def asked(text: str = "Count from 1 to 500, one number per line.") -> list[Message]:
    return [Message(role="user", content=(text,))]


def test_a_reply_is_streamed_counted_and_reproducible(chat: LlamaCppChat) -> None:
    pieces: list[str] = []
    reply = chat.reply(asked(), SHORT, pieces.append)
    assert reply.tokens == 12 and reply.finish == "length"
    assert "".join(pieces) == reply.text and len([piece for piece in pieces if piece]) > 3
    assert chat.reply(asked(), SHORT).text == reply.text
    # Log-probabilities are given, and do not change the reply.
    watched = chat.reply(asked(), SHORT.model_copy(update={"watch_verdict": True}))
    assert watched.text == reply.text and chat.server.process.starts == 1


def test_a_model_with_a_projector_sees_images(chat: LlamaCppChat) -> None:
    if not chat.sees_images:
        pytest.skip("the model has no projector")
    dark, light = (chat.reply(question(20, shade), SHORT) for shade in (20, 220))
    assert dark.tokens and light.tokens


def test_a_cancelled_reply_leaves_a_server_that_answers(chat: LlamaCppChat) -> None:
    chat.reply(asked(), SHORT)
    starts = chat.server.process.starts

    def cancel(text: str) -> None:
        if text:
            raise Cancelled("stop")

    with pytest.raises(Cancelled):
        chat.reply(asked(), LONG, cancel)
    assert chat.reply(asked("Count to 9."), SHORT).text
    assert chat.server.process.starts == starts


def test_a_question_that_is_too_long_raises_with_advice(chat: LlamaCppChat) -> None:
    with pytest.raises(ChatError, match=rf"exceeds the available context.*{CONTEXT}") as error:
        chat.reply(asked("a b " * CONTEXT), SHORT)
    assert "Increase context" in error.value.hint
    assert chat.reply(asked(), SHORT).tokens == 12


def test_a_server_killed_in_the_middle_of_an_answer_is_restarted(chat: LlamaCppChat) -> None:
    before = chat.reply(asked(), SHORT).text
    starts, supervisor = chat.server.process.starts, chat.server.process.process_id
    running = psutil.Process(supervisor).children()
    assert len(running) == 1

    def kill(text: str) -> None:
        if text and running:
            running.pop().kill()

    with pytest.raises(ChatError, match=r"llama\.cpp server ended during its answer") as error:
        chat.reply(asked(), LONG, kill)
    assert "next reply restarts it" in error.value.hint
    assert chat.reply(asked(), SHORT).text == before
    assert chat.server.process.starts == starts + 1
