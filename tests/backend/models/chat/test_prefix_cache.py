"""The next question is read from where it differs from the last one, and nothing else changes."""

from __future__ import annotations

import gc
import logging
import weakref
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from support import tiny_checkpoint
from support.tiny_checkpoint import PLAIN, WATCH, page, question

from interleave_thinker.backend.core.errors import Cancelled
from interleave_thinker.backend.core.machine.counters import counting
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.models.chat import ReplySettings
from interleave_thinker.backend.models.chat.local import chat as local
from interleave_thinker.backend.models.chat.local import generation
from interleave_thinker.backend.models.chat.local.base_model import EngineSettings
from interleave_thinker.backend.models.chat.local.generation import common_length, tokens_of
from interleave_thinker.backend.story.agents.critic import critic_message
from interleave_thinker.research.experiments.agents_loops import MODELS, build

IMAGE = 99


@pytest.mark.parametrize(
    ("first", "second", "length"),
    [
        ((1, 2, 3), (1, 2, 4), 2),
        ((1, 2, 3), (1, 2, 3), 2),
        ((1, 2), (1, 2, 3), 2),
        ((1, 2, 3), (1, 2), 1),
        ((1, "a", 2), (1, "a", 3), 4),
        ((1, "a", 2), (1, "b", 2), 1),
        ((1, "a", 2, "b", 3), (1, "a", 2, "c", 3), 5),
        ((1, 2, "a"), (1, "a", 2), 1),
    ],
)
def test_the_common_beginning_of_two_questions_is_found(first: Any, second: Any, length: int) -> None:
    def tokens(*parts: int | str) -> list[int | str]:
        """Return single tokens and images of three tokens each, given by their digests."""
        ids = [token for part in parts for token in ([part] if isinstance(part, int) else [IMAGE] * 3)]
        return tokens_of(ids, IMAGE, [part for part in parts if isinstance(part, str)])

    assert common_length(tokens(*first), tokens(*second)) == length


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.taught_checkpoint(tmp_path_factory.getbasetemp())


def opened(checkpoint: Path, **settings: Any) -> Any:
    engine = EngineSettings(**settings)
    return local.open(str(checkpoint), device="cpu", dtype="float32", share=False, engine=engine)


def test_attempts_of_a_step_read_only_new_tokens(checkpoint: Path) -> None:
    chat, fresh = opened(checkpoint), opened(checkpoint, prefix_tokens=0)
    read = []
    for grey in (20, 240, 20, 60):
        with counting() as counts:
            reply = chat.reply(question(255, grey), WATCH)
        expected = fresh.reply(question(255, grey), WATCH)
        assert (reply.text, reply.tokens, reply.finish) == (expected.text, expected.tokens, expected.finish)
        assert reply.probability == pytest.approx(expected.probability, rel=1e-4)
        read.append(counts.prefix_tokens_reused)
    assert read[0] == 0 and all(tokens > 9 for tokens in read[1:]), "the first image has 9 tokens"
    with counting() as counts:
        found = chat.reply(question(30, 20), WATCH)
    assert counts.prefix_tokens_reused < 9, "another first image"
    assert found.text == fresh.reply(question(30, 20), WATCH).text


@pytest.mark.parametrize("shape", ["small", "real-proportions"])
def test_random_models_answer_a_story_the_same(shape: str, tmp_path: Path) -> None:
    """Four patches are one token, and features enter at several layers; questions of two steps."""
    folder = build(tmp_path, default_prompt_set(), MODELS[shape]._replace(layers=3), [])
    chats = [opened(folder, prefix_tokens=tokens) for tokens in (8192, 0)]
    before = [page(grey, (96, 64)) for grey in (255, 90)]
    with counting() as counts:
        for number in range(8):
            pictures = (before[number // 4], page(30 * number, (96, 64)))
            message = critic_message(default_prompt_set(), pictures, "Draw a boat.", f"A boat, {number}.")
            cached, fresh = (chat.reply([message], ReplySettings(max_tokens=12)) for chat in chats)
            assert cached == fresh
    assert counts.prefix_tokens_reused > 7 * 500


def test_a_library_that_answers_differently_is_noticed(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel

    rope_index = Qwen3VLModel.get_rope_index
    chat = opened(checkpoint)
    expected = opened(checkpoint, prefix_tokens=0).reply(question(255, 240), WATCH).text
    chat.reply(question(255, 20), WATCH)
    calls: list[int] = []

    @wraps(rope_index)
    def moved(*arguments: Any, **options: Any) -> Any:
        """Simulate a version with wrong positions after a cached beginning."""
        positions, deltas = rope_index(*arguments, **options)
        calls.append(1)
        return (positions + 3 if len(calls) == 1 else positions), deltas

    monkeypatch.setattr(Qwen3VLModel, "get_rope_index", moved)
    with caplog.at_level(logging.WARNING):
        assert chat.reply(question(255, 240), WATCH).text == expected
    assert "Prefix caching is off" in caplog.text
    with counting() as counts:
        chat.reply(question(255, 20), WATCH)
    assert counts.prefix_tokens_reused == 0


def test_a_cancelled_answer_leaves_nothing_wrong(checkpoint: Path) -> None:
    chat = opened(checkpoint)

    def cancel(text: str) -> None:
        raise Cancelled("Stop.")

    with pytest.raises(Cancelled):
        chat.reply(question(255, 20), PLAIN, cancel)
    expected = opened(checkpoint, prefix_tokens=0).reply(question(255, 240), WATCH)
    assert chat.reply(question(255, 240), WATCH).text == expected.text


def test_a_long_question_is_not_kept(checkpoint: Path) -> None:
    chat = opened(checkpoint, prefix_tokens=8)
    with counting() as counts:
        for _ in range(2):
            chat.reply(question(255, 20), WATCH)
    assert counts.prefix_tokens_reused == 0 and chat.model not in generation._questions


@pytest.mark.parametrize("leave", ["offload", "release"])
def test_the_cache_leaves_with_the_weights(checkpoint: Path, leave: str) -> None:
    chat = opened(checkpoint)
    chat.reply(question(255, 20), WATCH)
    model = chat.model
    assert model in generation._questions
    chat.base.settings = chat.base.settings.model_copy(update={"device": "meta"})
    getattr(chat.base, leave)()
    assert model not in generation._questions


def test_a_closed_agent_leaves_nothing(checkpoint: Path) -> None:
    chat = opened(checkpoint)
    chat.reply(question(255, 20), WATCH)
    cache = weakref.ref(generation._questions[chat.model].cache)
    del chat
    gc.collect()
    assert cache() is None


def test_adapters_do_not_share_a_cache(checkpoint: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    adapter = tiny_checkpoint.build_adapter(checkpoint, tmp_path / "adapter", 1, 0.5)
    plain = local.open(str(checkpoint), device="cpu", dtype="float32")
    adapted = local.open(str(checkpoint), device="cpu", dtype="float32", adapter=str(adapter))
    assert adapted.base is plain.base
    plain.reply(question(255, 20), WATCH)
    with counting() as counts:
        adapted.reply(question(255, 20), WATCH)
    assert counts.prefix_tokens_reused == 0


def test_a_static_cache_gives_the_same_replies(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU nothing is compiled, and it is never used by itself."""
    chat, decode = opened(checkpoint, prefix_tokens=0, static_cache=True), generation.decode
    expected = chat.reply(question(255, 240), WATCH)
    monkeypatch.setattr(local, "decode", lambda *given: decode(*given[:-1], True))
    reply = chat.reply(question(255, 240), WATCH)
    assert (reply.text, reply.finish) == (expected.text, expected.finish)
    assert reply.probability == pytest.approx(expected.probability, rel=1e-4)
