"""The check that switches off what would change answers, the cache that grows in place, and what keeps within
a budget."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import tiny_checkpoint
from support.tiny_checkpoint import WATCH, question

from interleave_thinker.backend.byte_lru import ByteLRU
from interleave_thinker.backend.chat.engine import self_check as exactness
from interleave_thinker.backend.chat.engine.settings import PLAIN, EngineSettings
from interleave_thinker.backend.chat.local import chat as local
from interleave_thinker.backend.counters import count, counting, not_counting
from interleave_thinker.backend.errors import Cancelled, ChatError


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.taught_checkpoint(tmp_path_factory.getbasetemp())


def faulty(
    checkpoint: Path, wrong: Callable[[int, int], bool], dtype: str = "float32", written_out: bool = True
) -> Any:
    """A model in a library with a fault: tokens land one place too far where `wrong(tokens, tokens
    before)`."""
    levers = EngineSettings(written_out=written_out)
    chat = local.open(str(checkpoint), device="cpu", dtype=dtype, share=False, levers=levers)
    language = chat.model.model.language_model
    forward = language.forward

    def shifted(*arguments: Any, **options: Any) -> Any:
        places, cache = options["position_ids"], options["past_key_values"]
        before = 0 if cache is None else cache.get_seq_length()
        if before and wrong(places.shape[-1], before):
            options["position_ids"] = places + 5
        return forward(*arguments, **options)

    language.forward = shifted
    return chat


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_fault_with_kept_heads_switches_only_those_off(
    checkpoint: Path, dtype: str, caplog: pytest.LogCaptureFixture
) -> None:
    chat = faulty(checkpoint, lambda tokens, before: tokens > 1, dtype)
    with caplog.at_level(logging.WARNING), counting() as counts:
        chat.reply(question(255, 20), WATCH)
        chat.reply(question(255, 20), WATCH)
    assert list(chat.base.switched_off) == ["prefix_bytes"]
    assert "prefix_bytes is switched off: logits differ" in caplog.text
    assert (counts.prefix_tokens_kept, counts.images_kept) == (0, 2)


def test_a_fault_with_several_tokens_at_once_switches_guesses_off_too(
    checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chat = faulty(checkpoint, lambda tokens, before: tokens > 1, written_out=False)
    with caplog.at_level(logging.WARNING), counting() as counts:
        chat.reply(question(255, 20), WATCH)
    assert list(chat.base.switched_off) == ["prefix_bytes", "draft_tokens"]
    assert "draft_tokens is switched off: logits differ" in caplog.text
    assert counts.drafts_read == 0


def test_layers_that_changed_are_the_librarys_again(
    checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As if another version scaled what its attention gives."""
    chat = local.open(str(checkpoint), device="cpu", dtype="float32", share=False, levers=EngineSettings())
    attention = chat.model.model.language_model.layers[0].self_attn
    forward = attention.forward

    def scaled(*arguments: Any, **options: Any) -> Any:
        attended, weights = forward(*arguments, **options)
        return attended * 3, weights

    attention.forward = scaled
    with caplog.at_level(logging.WARNING):
        assert chat.base.decoding_engine() is not None
    assert list(chat.base.switched_off) == ["written_out"]


def test_a_fault_in_the_loop_leaves_the_librarys(checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    chat = faulty(checkpoint, lambda tokens, before: tokens == 1, written_out=False)
    with caplog.at_level(logging.WARNING):
        assert chat.base.decoding_engine() is None
    assert list(chat.base.switched_off) == ["own_loop"]
    assert "own_loop is switched off" in caplog.text


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nothing_is_switched_off_where_all_is_exact(checkpoint: Path, dtype: str) -> None:
    chat = local.open(str(checkpoint), device="cpu", dtype=dtype, share=False, levers=EngineSettings())
    with counting() as counts:
        assert chat.base.decoding_engine() is not None
    assert not chat.base.switched_off
    assert not counts.lm_forwards, "a check is no part of a run"


def opened(
    checkpoint: Path,
    dtype: str = "float32",
    levers: EngineSettings = EngineSettings(),  # noqa: B008 - frozen
    device: str = "cpu",
) -> Any:
    return local.open(str(checkpoint), device=device, dtype=dtype, share=False, levers=levers)


def breaking(chat: Any, error: BaseException) -> Any:
    """The chat with language layers that end in this error whenever something is in their cache."""
    language = chat.model.model.language_model
    forward = language.forward

    def broken(*arguments: Any, **options: Any) -> Any:
        cache = options["past_key_values"]
        if cache is not None and type(cache).__name__ == "GrowingCache":
            raise error
        return forward(*arguments, **options)

    language.forward = broken
    return chat


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("shape '[1, 2]' is invalid for input of size 3"),
        AssertionError("layout"),
        NotImplementedError("no kernel"),
        ImportError("no such kernel"),
        ZeroDivisionError("division by zero"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_the_loop_ends_in_the_library_answers(checkpoint: Path, error: Exception) -> None:
    expected = opened(checkpoint, levers=EngineSettings(own_loop=False)).reply(question(255, 20), WATCH)
    chat = breaking(opened(checkpoint), error)
    assert chat.reply(question(255, 20), WATCH) == expected
    assert chat.base.switched_off["own_loop"].startswith(type(error).__name__)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (RuntimeError("CUDA out of memory. Tried to allocate 9 GiB."), ChatError),
        (MemoryError(), ChatError),
        (Cancelled("stop"), Cancelled),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_want_of_memory_and_the_users_word_are_no_findings(
    checkpoint: Path, error: BaseException, raised: type[BaseException]
) -> None:
    chat = breaking(opened(checkpoint), error)
    for ask in (lambda: chat.identity, lambda: chat.reply(question(255), WATCH)):
        with pytest.raises(raised):
            ask()
    assert not chat.base.switched_off and not chat.base.is_settled


@pytest.mark.parametrize("module", ["engine", "kv_cache"])
def test_names_that_a_version_lacks_leave_the_librarys_loop(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    expected = opened(checkpoint, levers=EngineSettings(own_loop=False)).reply(question(255, 20), WATCH)
    package = exactness.__package__
    for name in {"engine", "sequence", module}:
        monkeypatch.delitem(sys.modules, f"{package}.{name}", raising=False)
    monkeypatch.setitem(sys.modules, f"{package}.{module}", None)
    chat = opened(checkpoint)
    assert chat.reply(question(255, 20), WATCH) == expected
    assert module in chat.base.switched_off["own_loop"]


@pytest.mark.parametrize(("dtype", "least", "most"), [("float32", 1e-4, 2e-3), ("bfloat16", 0.013, 0.058)])
def test_the_least_fault_ever_seen_is_none_of_rounding(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, least: float, most: float
) -> None:
    """Rounding gave up to 0.012 in 16 bits, the least fault 0.059 (exactness.TOLERANCE_16_BITS)."""
    import torch

    def off(apart: float) -> dict[str, str]:
        def read(own: Any, model: Any, prompt: Any, pictures: Any, tokens: Any, guesses: Any = ()) -> Any:
            logits = exactness.library_logits(model, chat.base.processor, prompt, pictures, tokens)
            centred = logits - logits.mean(dim=-1, keepdim=True)
            return logits + apart * centred.roll(1, dims=-1)

        chat = opened(checkpoint, dtype)
        monkeypatch.setattr(exactness, "own_logits", read)
        with torch.inference_mode():
            chat.base.decoding_engine()
        return chat.base.switched_off

    assert not off(least)
    assert list(off(most)) == ["own_loop"]


def test_the_identity_names_what_changes_the_last_bits(checkpoint: Path) -> None:
    """Replies of engines that round differently must not be taken for one another's."""
    plain = opened(checkpoint, levers=PLAIN).identity
    marked = {
        "heads:drafts=16": EngineSettings(),
        "drafts=16": EngineSettings(prefix_bytes=0),
        "heads": EngineSettings(draft_tokens=0),
        "heads:drafts=3": EngineSettings(draft_tokens=3),
        "heads:static=eager": EngineSettings(static_cache="eager"),
    }
    for marks, levers in marked.items():
        assert opened(checkpoint, levers=levers).identity == f"{plain}:{marks}"


@pytest.mark.parametrize(
    ("wrong", "marks"),
    [
        (lambda tokens, before: tokens > 1, ":drafts=16"),
        (lambda tokens, before: tokens == 1, ""),
    ],
)
def test_the_identity_is_of_what_the_check_left_on(
    checkpoint: Path, wrong: Callable[[int, int], bool], marks: str
) -> None:
    plain = opened(checkpoint, levers=PLAIN).identity
    chat = faulty(checkpoint, wrong, written_out=bool(marks))
    before = chat.identity
    assert before == f"{plain}{marks}"
    chat.reply(question(255, 20), WATCH)
    assert chat.identity == before, "it is a key, and must not change after its first use"


def test_asked_for_its_name_an_agent_leaves_the_card_as_it_was(checkpoint: Path) -> None:
    chat = opened(checkpoint, device="cpu:0")
    with counting() as counts:
        assert chat.identity == opened(checkpoint).identity
        assert (counts.agents_brought, counts.agents_sent_away) == (0, 0)
        chat.reply(question(255), WATCH)
    assert (counts.agents_brought, counts.agents_sent_away) == (1, 0)


def test_a_growing_cache_holds_what_the_librarys_holds() -> None:
    import torch
    from transformers.cache_utils import DynamicLayer

    from interleave_thinker.backend.chat.engine.kv_cache import ROOM, GrowingCache, GrowingLayer

    ours, theirs = GrowingLayer(), DynamicLayer()
    for tokens in (5, 1, ROOM - 6, 1, 1, 3 * ROOM, 1):
        new = [torch.randn(1, 2, tokens, 4) for _ in range(2)]
        for own, other in zip(ours.update(*new), theirs.update(*new), strict=True):
            assert torch.equal(own, other)
    assert ours.get_seq_length() == theirs.get_seq_length()
    # transformers before 5.4 asks with the new tokens' places, later ones with their number.
    asked: Any = (
        3 if "query_length" in inspect.signature(theirs.get_mask_sizes).parameters else torch.arange(3)
    )
    assert ours.get_mask_sizes(asked) == theirs.get_mask_sizes(asked)
    before, more = theirs.keys[..., :4, :], torch.randn(1, 2, 2, 4)
    ours.cut(4)
    assert torch.equal(ours.keys, before) and ours.get_seq_length() == 4
    assert torch.equal(ours.update(more, more)[0], torch.cat([before, more], dim=-2))
    cache = GrowingCache(1)
    cache.update(torch.ones(1, 2, 3, 4), torch.zeros(1, 2, 3, 4), 0)
    head = cache.head()
    cache.update(torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 4), 0)
    again = GrowingCache(1)
    again.begin_with(head, torch.device("cpu"))
    assert again.get_seq_length() == 3
    assert torch.equal(again.layers[0].keys, cache.layers[0].keys[..., :3, :])


def test_what_is_kept_stays_within_its_bytes() -> None:
    kept: ByteLRU[str, bytes] = ByteLRU(10, len)
    kept.put("a", b"1234")
    kept.put("b", b"1234")
    assert kept.get("a") == b"1234"
    kept.put("c", b"1234")
    assert (kept.get("a"), kept.get("b"), kept.get("c"), kept.bytes) == (b"1234", None, b"1234", 8)
    kept.put("c", b"1")
    kept.put("huge", bytes(11))
    assert (len(kept), kept.bytes, kept.get("huge")) == (2, 5, None)
    kept.clear()
    assert (len(kept), kept.bytes) == (0, 0)


def test_counting_is_for_those_who_asked() -> None:
    count(draws=5)
    with counting() as outer:
        count(draws=1)
        with counting() as inner:
            count(draws=1, judgements=2)
            with not_counting():
                count(draws=100)
        count(draws=1)
    count(draws=1)
    assert (outer.draws, outer.judgements, inner.draws, inner.judgements) == (3, 2, 1, 2)
