"""The check that switches off settings that change answers, the growing cache, and the cache with a limit."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import tiny_checkpoint
from support.tiny_checkpoint import WATCH, alike, question

from interleave_thinker.backend.chat.engine import self_check
from interleave_thinker.backend.chat.engine.qwen3_vl import cache_argument
from interleave_thinker.backend.chat.engine.settings import PLAIN, EngineSettings
from interleave_thinker.backend.chat.local import chat as local
from interleave_thinker.backend.errors import Cancelled, ChatError
from interleave_thinker.backend.machine.byte_lru import ByteLRU
from interleave_thinker.backend.machine.counters import count, counting, not_counting


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.taught_checkpoint(tmp_path_factory.getbasetemp())


def faulty(
    checkpoint: Path, wrong: Callable[[int, int], bool], dtype: str = "float32", inline: bool = True
) -> Any:
    """A model with a fault: tokens are one position too far where `wrong(tokens, tokens before)` is true."""
    engine = EngineSettings(inline_layers=inline)
    chat = local.open(str(checkpoint), device="cpu", dtype=dtype, share=False, engine=engine)
    language = chat.model.model.language_model
    forward, name = language.forward, cache_argument(type(language))

    def shifted(*arguments: Any, **options: Any) -> Any:
        position_ids, cache = options["position_ids"], options[name]
        before = 0 if cache is None else cache.get_seq_length()
        if before and wrong(position_ids.shape[-1], before):
            options["position_ids"] = position_ids + 5
        return forward(*arguments, **options)

    language.forward = shifted
    return chat


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_fault_with_several_tokens_at_once_switches_only_prompt_lookup_off(
    checkpoint: Path, dtype: str, caplog: pytest.LogCaptureFixture
) -> None:
    chat = faulty(checkpoint, lambda tokens, before: tokens > 1, dtype, inline=False)
    with caplog.at_level(logging.WARNING), counting() as counts:
        chat.reply(question(255, 20), WATCH)
        chat.reply(question(255, 20), WATCH)
    assert list(chat.base.switched_off) == ["prompt_lookup_tokens", "prefix_tokens"]
    assert "prompt_lookup_tokens is switched off: logits differ" in caplog.text
    assert (counts.drafts_read, counts.images_kept) == (0, 2)


def test_layers_that_changed_are_the_librarys_again(
    checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Simulates a version that scales the output of attention."""
    chat = local.open(str(checkpoint), device="cpu", dtype="float32", share=False, engine=EngineSettings())
    attention = chat.model.model.language_model.layers[0].self_attn
    forward = attention.forward

    def scaled(*arguments: Any, **options: Any) -> Any:
        attended, weights = forward(*arguments, **options)
        return attended * 3, weights

    attention.forward = scaled
    with caplog.at_level(logging.WARNING):
        assert chat.base.engine() is not None
    assert list(chat.base.switched_off) == ["inline_layers"]


def test_a_fault_in_the_engine_leaves_generate(checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    chat = faulty(checkpoint, lambda tokens, before: tokens == 1, inline=False)
    with caplog.at_level(logging.WARNING):
        assert chat.base.engine() is None
    assert list(chat.base.switched_off) == ["enabled"]
    assert "enabled is switched off" in caplog.text


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_exact_optimizations_stay_on(checkpoint: Path, dtype: str) -> None:
    chat = local.open(str(checkpoint), device="cpu", dtype=dtype, share=False, engine=EngineSettings())
    with counting() as counts:
        assert chat.base.engine() is not None
    assert not chat.base.switched_off
    assert not counts.lm_forwards, "a check does not count as part of a run"


def opened(
    checkpoint: Path,
    dtype: str = "float32",
    engine: EngineSettings = EngineSettings(),  # noqa: B008 - frozen
    device: str = "cpu",
) -> Any:
    return local.open(str(checkpoint), device=device, dtype=dtype, share=False, engine=engine)


def breaking(chat: Any, error: BaseException) -> Any:
    """The chat, with language layers that raise this error when their cache is not empty."""
    language = chat.model.model.language_model
    forward, name = language.forward, cache_argument(type(language))

    def broken(*arguments: Any, **options: Any) -> Any:
        cache = options[name]
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
def test_generate_answers_after_any_engine_failure(checkpoint: Path, error: Exception) -> None:
    expected = opened(checkpoint, engine=EngineSettings(enabled=False)).reply(question(255, 20), WATCH)
    chat = breaking(opened(checkpoint), error)
    assert chat.reply(question(255, 20), WATCH) == alike(expected)
    assert chat.base.switched_off["enabled"].startswith(type(error).__name__)


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
def test_out_of_memory_and_cancelling_are_no_findings(
    checkpoint: Path, error: BaseException, raised: type[BaseException]
) -> None:
    chat = breaking(opened(checkpoint), error)
    for ask in (lambda: chat.identity, lambda: chat.reply(question(255), WATCH)):
        with pytest.raises(raised):
            ask()
    assert not chat.base.switched_off and not chat.base.is_settled


@pytest.mark.parametrize("module", ["engine", "kv_cache"])
def test_names_that_a_version_lacks_leave_generate(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    expected = opened(checkpoint, engine=EngineSettings(enabled=False)).reply(question(255, 20), WATCH)
    package = self_check.__package__
    for name in {"engine", "sequence", module}:
        monkeypatch.delitem(sys.modules, f"{package}.{name}", raising=False)
    monkeypatch.setitem(sys.modules, f"{package}.{module}", None)
    chat = opened(checkpoint)
    assert chat.reply(question(255, 20), WATCH) == alike(expected)
    assert module in chat.base.switched_off["enabled"]


@pytest.mark.parametrize(("dtype", "least", "most"), [("float32", 1e-4, 2e-3), ("bfloat16", 0.013, 0.058)])
def test_the_smallest_known_fault_exceeds_rounding(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, least: float, most: float
) -> None:
    """The smallest fault was 0.092 (self_check.TOLERANCE_16_BITS)."""
    import torch

    def off(apart: float) -> dict[str, str]:
        def read(own: Any, model: Any, prompt: Any, pictures: Any, tokens: Any, draft: Any = ()) -> Any:
            logits = self_check.library_logits(model, chat.base.processor, prompt, pictures, tokens)
            centred = logits - logits.mean(dim=-1, keepdim=True)
            return logits + apart * centred.roll(1, dims=-1)

        chat = opened(checkpoint, dtype)
        monkeypatch.setattr(self_check, "engine_logits", read)
        with torch.inference_mode():
            chat.base.engine()
        return chat.base.switched_off

    assert not off(least)
    assert list(off(most)) == ["enabled"]


def test_the_identity_names_what_changes_the_last_bits(checkpoint: Path) -> None:
    """Replies of engines that round differently must not share cache entries."""
    plain = opened(checkpoint, engine=PLAIN).identity
    marked = {
        ":drafts=16": EngineSettings(),
        ":drafts=3": EngineSettings(prompt_lookup_tokens=3),
        "": EngineSettings(prompt_lookup_tokens=0),
    }
    for marks, engine in marked.items():
        assert opened(checkpoint, engine=engine).identity == f"{plain}{marks}"


@pytest.mark.parametrize(
    ("wrong", "marks"),
    [
        (lambda tokens, before: tokens > 1, ":drafts=16"),
        (lambda tokens, before: tokens > 1, ""),
        (lambda tokens, before: tokens == 1, ""),
    ],
)
def test_the_identity_depends_on_the_enabled_optimizations(
    checkpoint: Path, wrong: Callable[[int, int], bool], marks: str
) -> None:
    plain = opened(checkpoint, engine=PLAIN).identity
    chat = faulty(checkpoint, wrong, inline=bool(marks))
    before = chat.identity
    assert before == f"{plain}{marks}"
    chat.reply(question(255, 20), WATCH)
    assert chat.identity == before, "it is a key, and must not change after its first use"


def test_reading_the_identity_of_an_agent_does_not_load_it(checkpoint: Path) -> None:
    chat = opened(checkpoint, device="cpu:0")
    with counting() as counts:
        assert chat.identity == opened(checkpoint).identity
        assert (counts.agents_loaded, counts.agents_offloaded) == (0, 0)
        chat.reply(question(255), WATCH)
    assert (counts.agents_loaded, counts.agents_offloaded) == (1, 0)


def test_a_growing_cache_equals_the_librarys() -> None:
    import torch
    from transformers.cache_utils import DynamicLayer

    from interleave_thinker.backend.chat.engine.kv_cache import ROOM, GrowingCache, GrowingLayer

    ours, theirs = GrowingLayer(), DynamicLayer()
    for tokens in (5, 1, ROOM - 6, 1, 1, 3 * ROOM, 1):
        new = [torch.randn(1, 2, tokens, 4) for _ in range(2)]
        for own, other in zip(ours.update(*new), theirs.update(*new), strict=True):
            assert torch.equal(own, other)
    assert ours.get_seq_length() == theirs.get_seq_length()
    # transformers before 5.4 passes the positions of the new tokens, later versions their number.
    asked: Any = (
        3 if "query_length" in inspect.signature(theirs.get_mask_sizes).parameters else torch.arange(3)
    )
    assert ours.get_mask_sizes(asked) == theirs.get_mask_sizes(asked)
    before, more = theirs.keys[..., :4, :], torch.randn(1, 2, 2, 4)
    ours.crop_to(4)
    assert torch.equal(ours.keys, before) and ours.get_seq_length() == 4
    assert torch.equal(ours.update(more, more)[0], torch.cat([before, more], dim=-2))
    cache = GrowingCache(1)
    cache.update(more, more, 0)
    cache.crop_to(1)
    assert cache.get_seq_length() == 1


def test_a_cache_stays_within_its_bytes() -> None:
    cache: ByteLRU[str, bytes] = ByteLRU(10, len)
    cache.put("a", b"1234")
    cache.put("b", b"1234")
    assert cache.get("a") == b"1234"
    cache.put("c", b"1234")
    assert (cache.get("a"), cache.get("b"), cache.get("c"), cache.bytes) == (b"1234", None, b"1234", 8)
    cache.put("c", b"1")
    cache.put("huge", bytes(11))
    assert (len(cache), cache.bytes, cache.get("huge")) == (2, 5, None)
    cache.clear()
    assert (len(cache), cache.bytes) == (0, 0)


def test_counters_count_only_in_their_own_context() -> None:
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
