"""Buffers of a fixed size: the same replies, one compilation for a bucket, and nothing compiled where that
cannot be."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from support import tiny_checkpoint
from support.tiny_checkpoint import PLAIN, WATCH, page, question

from interleave_thinker.backend.chat import Message, open_chat
from interleave_thinker.backend.chat.engine import engine as decoding_engine
from interleave_thinker.backend.chat.engine import static_cache as static_decoding
from interleave_thinker.backend.chat.engine.settings import EngineSettings
from interleave_thinker.backend.chat.engine.static_cache import BUCKETS, bucket_for, why_not_compiled
from interleave_thinker.backend.chat.local import chat as local
from interleave_thinker.backend.counters import counting

ASKED = [
    (question(255, 240), WATCH),
    (question(255, 20), WATCH),
    (question(255, 20), PLAIN),
    (question(255, 60, 90), PLAIN.model_copy(update={"temperature": 1.5, "seed": 3})),
    (question(text="no image at all"), PLAIN),
]
STATIC = EngineSettings(static_cache="eager")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.taught_checkpoint(tmp_path_factory.getbasetemp())


def opened(checkpoint: Path, levers: EngineSettings = STATIC, **options: Any) -> Any:
    return local.open(
        str(checkpoint), **{"device": "cpu", "dtype": "float32", "share": False, "levers": levers} | options
    )


def test_replies_are_those_of_growing_buffers(checkpoint: Path) -> None:
    static, growing = opened(checkpoint), opened(checkpoint, EngineSettings(draft_tokens=0))
    for asked in ASKED:
        with counting() as counts:
            found = static.reply(*asked)
        with counting() as grown:
            expected = growing.reply(*asked)
        assert (found.text, found.tokens, found.finish) == (expected.text, expected.tokens, expected.finish)
        assert (found.probability is None) == (expected.probability is None)
        assert (found.probability or 0.0) == pytest.approx(expected.probability or 0.0, rel=1e-4)
        assert (counts.lm_forwards, counts.lm_tokens) == (grown.lm_forwards, grown.lm_tokens)
    assert not static.base.switched_off
    assert static.identity != growing.identity
    assert [size for size, _ in static.base.decoding_engine()._buckets] == [BUCKETS[0]]


def answers(own: Any, chat: Any, greys: tuple[int, ...], tokens: int) -> list[Any]:
    """Logits after each of the first tokens of the greedy answer about these pages."""
    import torch

    prompt, pictures = chat._prompt(
        [Message(role="user", content=(*map(page, greys), "Is it light?"))], WATCH
    )
    with torch.inference_mode():
        answer = own.read(chat.model, None, prompt, pictures, 60)
        rows = [answer.logits]
        for _ in range(tokens):
            answer.add(int(answer.logits.argmax()))
            rows.append(answer.logits)
    return rows


def test_a_step_is_compiled_once_for_a_bucket_and_not_for_a_prompt(checkpoint: Path) -> None:
    """Traced whole, without a break; the compiler behind it is only a counter, since the real one needs a
    card."""
    import torch
    from torch._dynamo.testing import CompileCounter

    from interleave_thinker.backend.chat.engine.engine import Engine

    chat = opened(checkpoint, EngineSettings())
    own = Engine(chat.base.processor, EngineSettings(static_cache="compiled"))
    own.compiler = CompileCounter()
    plain = Engine(chat.base.processor, EngineSettings())
    torch._dynamo.reset()
    for greys in ((240,), (255, 20), (255, 60, 90), ()):
        for ours, theirs in zip(answers(own, chat, greys, 6), answers(plain, chat, greys, 6), strict=True):
            assert torch.allclose(ours, theirs, atol=1e-4)
    assert own.compiler.frame_count == 1


def test_without_a_card_nothing_is_compiled_and_the_reason_is_told(checkpoint: Path) -> None:
    import torch

    chat = opened(checkpoint, EngineSettings(static_cache="compiled"))
    expected = opened(checkpoint, EngineSettings()).reply(*ASKED[1])
    assert chat.reply(*ASKED[1]) == expected
    assert chat.base.switched_off == {"static_cache": "compiling is for CUDA cards, and the agent is on cpu"}
    assert why_not_compiled(torch.device("mps"))
    if importlib.util.find_spec("triton") is not None:
        assert not why_not_compiled(torch.device("cuda"))


def test_what_no_bucket_holds_grows(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [bucket_for(tokens) for tokens in (1, 1024, 1025, 32768, 32769)] == [
        1024,
        1024,
        2048,
        32768,
        None,
    ]
    monkeypatch.setattr(static_decoding, "BUCKETS", (1,))
    chat = opened(checkpoint)
    assert chat.reply(*ASKED[1]).text == opened(checkpoint, EngineSettings()).reply(*ASKED[1]).text
    assert not chat.base.decoding_engine()._buckets


def test_an_answer_longer_than_its_buffers_goes_on_without(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a plan of thousands of tokens, for which no buffers are made."""
    chat, growing = opened(checkpoint), opened(checkpoint, EngineSettings())
    expected = growing.reply(*ASKED[1])
    own = chat.base.decoding_engine()
    prompt = own.read(chat.model, None, *chat._prompt(*ASKED[1])).ids.shape[1]
    own.free()
    monkeypatch.setattr(static_decoding, "BUCKETS", (prompt + expected.tokens // 2,))
    monkeypatch.setattr(decoding_engine, "MOST_STATIC", 2)
    reply = chat.reply(*ASKED[1])
    assert own._buckets, "it began in them"
    assert (reply.text, reply.finish) == (expected.text, expected.finish)


def test_the_buffers_leave_with_the_weights(checkpoint: Path) -> None:
    chat = opened(checkpoint, device="cpu:0")
    first = chat.reply(*ASKED[1])
    own = chat.base.decoding_engine()
    assert own._buckets
    chat.leave()
    assert not own._buckets
    assert chat.reply(*ASKED[1]).text == first.text


def test_a_fault_in_the_buffers_switches_them_off(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if another version's positions meant something else to what is written here."""
    import torch

    original = torch.Tensor.index_copy_

    def misplaced(self: Any, dimension: int, index: Any, source: Any) -> Any:
        return original(self, dimension, index - 3, source)

    monkeypatch.setattr(torch.Tensor, "index_copy_", misplaced)
    chat = open_chat(f"transformers:{checkpoint}", device="cpu", share=False, levers=STATIC)
    chat.reply(*ASKED[1])
    assert list(chat.base.switched_off) == ["static_cache"]  # type: ignore[attr-defined]
