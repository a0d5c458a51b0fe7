"""The check that switches off what would change answers, the cache that grows in place, and what keeps within a budget."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_checkpoint
from tiny_checkpoint import WATCH, question

from interleave_thinker.backend.chat import transformers as local
from interleave_thinker.backend.chat.levers import Levers
from interleave_thinker.backend.counters import count, counting, not_counting
from interleave_thinker.backend.kept import Kept


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.taught_checkpoint(tmp_path_factory.getbasetemp())


def faulty(
    checkpoint: Path, wrong: Callable[[int, int], bool], dtype: str = "float32", written_out: bool = True
) -> Any:
    """A model in a library with a fault: tokens land one place too far where `wrong(tokens, tokens before)`."""
    levers = Levers(written_out=written_out)
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
    chat = local.open(str(checkpoint), device="cpu", dtype="float32", share=False, levers=Levers())
    attention = chat.model.model.language_model.layers[0].self_attn
    forward = attention.forward

    def scaled(*arguments: Any, **options: Any) -> Any:
        attended, weights = forward(*arguments, **options)
        return attended * 3, weights

    attention.forward = scaled
    with caplog.at_level(logging.WARNING):
        assert chat.base.own_decoding() is not None
    assert list(chat.base.switched_off) == ["written_out"]


def test_a_fault_in_the_loop_leaves_the_librarys(checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    chat = faulty(checkpoint, lambda tokens, before: tokens == 1, written_out=False)
    with caplog.at_level(logging.WARNING):
        assert chat.base.own_decoding() is None
    assert list(chat.base.switched_off) == ["own_loop"]
    assert "own_loop is switched off" in caplog.text


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nothing_is_switched_off_where_all_is_exact(checkpoint: Path, dtype: str) -> None:
    chat = local.open(str(checkpoint), device="cpu", dtype=dtype, share=False, levers=Levers())
    with counting() as counts:
        assert chat.base.own_decoding() is not None
    assert not chat.base.switched_off
    assert not counts.lm_forwards, "a check is no part of a run"


def test_a_growing_cache_holds_what_the_librarys_holds() -> None:
    import torch
    from transformers.cache_utils import DynamicLayer

    from interleave_thinker.backend.chat.growing_cache import ROOM, GrowingCache, GrowingLayer

    ours, theirs = GrowingLayer(), DynamicLayer()
    for tokens in (5, 1, ROOM - 6, 1, 1, 3 * ROOM, 1):
        new = [torch.randn(1, 2, tokens, 4) for _ in range(2)]
        for own, other in zip(ours.update(*new), theirs.update(*new), strict=True):
            assert torch.equal(own, other)
    assert ours.get_seq_length() == theirs.get_seq_length()
    assert ours.get_mask_sizes(3) == theirs.get_mask_sizes(3)
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
    kept: Kept[str, bytes] = Kept(10, len)
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
