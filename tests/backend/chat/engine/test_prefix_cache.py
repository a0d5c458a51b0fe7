"""The next question is read from where it differs from the last one, and nothing else changes."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from support import tiny_checkpoint
from support.tiny_checkpoint import PLAIN, WATCH, page, question

from interleave_thinker.backend.agents.critic import critic_message
from interleave_thinker.backend.agents.planner import planner_message
from interleave_thinker.backend.chat import Message, Reply
from interleave_thinker.backend.chat.engine import prefix_cache
from interleave_thinker.backend.chat.engine.kv_cache import ROOM
from interleave_thinker.backend.chat.engine.prefix_cache import common_length
from interleave_thinker.backend.chat.engine.rope_positions import ImageSpan, PromptTokens
from interleave_thinker.backend.chat.engine.self_check import distance
from interleave_thinker.backend.chat.engine.settings import EngineSettings
from interleave_thinker.backend.chat.local import chat as local
from interleave_thinker.backend.errors import Cancelled
from interleave_thinker.backend.machine.counters import counting
from interleave_thinker.backend.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.types import Request
from interleave_thinker.benchmarks.agents_loops import MODELS, build

IMAGE = 99


def prompt(*parts: int | str) -> PromptTokens:
    """A prompt of single tokens and of images of three tokens each, given by their digests."""
    ids: list[int] = []
    spans: list[ImageSpan] = []
    for part in parts:
        start = len(ids)
        ids += [part] if isinstance(part, int) else [IMAGE] * 3
        if isinstance(part, str):
            spans.append(ImageSpan(start, len(ids), part))
    return PromptTokens(tuple(ids), torch.zeros(4, 1, len(ids)), (), tuple(spans))


@pytest.mark.parametrize(
    ("first", "second", "length"),
    [
        ((1, 2, 3), (1, 2, 4), 2),
        ((1, 2, 3), (4, 2, 3), 0),
        ((1, 2, 3), (1, 2, 3), 2),
        ((1, 2), (1, 2, 3), 2),
        ((1, 2, 3), (1, 2), 1),
        ((1, "a", 2), (1, "a", 3), 4),
        ((1, "a", 2), (1, "b", 2), 1),
        ((1, "a", 2, "b", 3), (1, "a", 2, "c", 3), 5),
        ((1, "a", "b", 3), (1, "a", "c", 3), 4),
        ((1, "a"), (1, "a"), 1),
        ((1, 2, "a"), (1, "a", 2), 1),
    ],
)
def test_the_common_prefix_of_two_questions_is_found(first: Any, second: Any, length: int) -> None:
    assert common_length(prompt(*first), prompt(*second)) == length


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.taught_checkpoint(tmp_path_factory.getbasetemp())


def opened(checkpoint: Path, **settings: Any) -> Any:
    engine = EngineSettings(**settings)
    chat = local.open(str(checkpoint), device="cpu", dtype="float32", share=False, engine=engine)
    chat.base.engine()
    assert not chat.base.switched_off
    return chat


@pytest.mark.parametrize("inline", [True, False])
def test_attempts_of_a_step_process_only_new_tokens(checkpoint: Path, inline: bool) -> None:
    chat = opened(checkpoint, inline_layers=inline)
    fresh = opened(checkpoint, inline_layers=inline, prefix_tokens=0)
    read = []
    for grey in (20, 240, 20, 60):
        with counting() as counts:
            reply = chat.reply(question(255, grey), WATCH)
        expected = fresh.reply(question(255, grey), WATCH)
        assert (reply.text, reply.tokens, reply.finish) == (expected.text, expected.tokens, expected.finish)
        assert reply.probability == pytest.approx(expected.probability, rel=1e-4)
        read.append(counts.prefix_tokens_reused)
    assert read[0] == 0 and all(tokens > 9 for tokens in read[1:]), "the first image has 9 tokens"


def test_another_first_image_is_processed_again(checkpoint: Path) -> None:
    chat = opened(checkpoint)
    chat.reply(question(255, 20), WATCH)
    with counting() as counts:
        found = chat.reply(question(30, 20), WATCH)
    assert counts.prefix_tokens_reused < 9
    assert found.text == opened(checkpoint, prefix_tokens=0).reply(question(30, 20), WATCH).text


def test_a_cancelled_answer_leaves_a_correct_cache(checkpoint: Path) -> None:
    chat = opened(checkpoint)

    def cancel(text: str) -> None:
        raise Cancelled("Stop.")

    with pytest.raises(Cancelled):
        chat.reply(question(255, 20), PLAIN, cancel)
    found = chat.reply(question(255, 240), WATCH)
    expected = opened(checkpoint, prefix_tokens=0).reply(question(255, 240), WATCH)
    assert found.text == expected.text


def test_the_cache_stays_within_its_bounds_over_200_questions(checkpoint: Path) -> None:
    """One question for each model, of at most `prefix_tokens`; buffers end with its last token's block."""
    limit = 128
    chat, kept_sizes = opened(checkpoint, prefix_tokens=limit), set()
    short = WATCH.model_copy(update={"max_tokens": 2})
    for number in range(200):
        if number % 10 == 0:
            chat.reply_together(candidates(number, 255 - number, before=number), short)
        else:
            text = "the door " * (number % 60)
            chat.reply(question(255 - number % 7, number, text=text), short)
        kept = [found for model, found in prefix_cache._questions.items() if model is chat.model]
        assert len(kept) <= 1
        for question_kept in kept:
            length = len(question_kept.tokens.ids)
            assert question_kept.cache.get_seq_length() == length <= limit
            kept_sizes.add(bytes_of(question_kept.cache))
    text_config = chat.model.config.get_text_config()
    token = text_config.num_hidden_layers * text_config.num_key_value_heads * text_config.head_dim * 2 * 4
    assert kept_sizes == {ROOM * token}, "never more than one block for questions of up to 128 tokens"


def bytes_of(cache: Any) -> int:
    buffers = [one._buffer for layer in cache.growing for one in (layer._keys, layer._values)]
    return sum(buffer.untyped_storage().nbytes() for buffer in buffers)


def test_a_long_answer_does_not_stay_in_memory(checkpoint: Path) -> None:
    chat = opened(checkpoint)
    long = PLAIN.model_copy(update={"max_tokens": 700, "temperature": 4.0, "seed": 1})
    while chat.reply(question(255, 20), long).tokens < 600:
        long = long.model_copy(update={"seed": long.seed + 1})
    cache = prefix_cache._questions[chat.model].cache
    buffers = [layer._keys._buffer for layer in cache.growing]
    assert all(buffer is not None and buffer.shape[-2] <= 256 for buffer in buffers)
    assert len(prefix_cache._questions[chat.model].tokens.ids) < 256


def test_nothing_is_kept_after_an_error(checkpoint: Path) -> None:
    chat = opened(checkpoint)

    def fail(text: str) -> None:
        raise MemoryError

    for ask in (
        lambda: chat.reply(question(255, 20), PLAIN, fail),
        lambda: chat.reply_together(candidates(20, 240), PLAIN, fail),
    ):
        chat.reply(question(255, 20), WATCH)
        with pytest.raises(Exception, match="MemoryError"):
            ask()
        assert chat.model not in prefix_cache._questions


def candidates(*grey: int, before: int = 255) -> list[Message]:
    """Questions about these images, each after the same one."""
    return [question(before, value)[0] for value in grey]


def summaries(replies: list[Reply]) -> list[tuple[str, int, str]]:
    return [(reply.text, reply.tokens, reply.finish) for reply in replies]


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("asked_before", [None, (255, 20), (255, 90), (30, 20)])
def test_a_batch_processes_its_common_beginning_once(
    checkpoint: Path, inline: bool, asked_before: tuple[int, int] | None
) -> None:
    settings = {"inline_layers": inline, "prompt_lookup_tokens": 0}
    chat, fresh = opened(checkpoint, **settings), opened(checkpoint, **settings, prefix_tokens=0)
    if asked_before:
        chat.reply(question(*asked_before), WATCH)
    with counting() as counts:
        found = chat.reply_together(candidates(20, 240, 20, 60), WATCH)
    with counting() as without:
        expected = fresh.reply_together(candidates(20, 240, 20, 60), WATCH)
    assert summaries(found) == summaries(expected)
    for own, other in zip(found, expected, strict=True):
        assert own.probability == pytest.approx(other.probability, rel=1e-4)
    assert counts.lm_tokens + counts.prefix_tokens_reused == without.lm_tokens
    common = common_length(*(tokens_of(chat, message) for message in candidates(20, 240)))
    assert common > 9, "the first image has 9 tokens"
    read_before = asked_before is not None and asked_before[0] == 255
    assert counts.prefix_tokens_reused >= (4 if read_before else 3) * common
    assert counts.lm_forwards == without.lm_forwards + (not read_before)


def tokens_of(chat: Any, message: Message) -> PromptTokens:
    with torch.inference_mode():
        return chat.base.engine()._tokens(chat.model, None, *chat._prompt([message], WATCH))


def test_an_attempt_after_a_batch_processes_only_new_tokens(checkpoint: Path) -> None:
    chat = opened(checkpoint)
    chat.reply_together(candidates(20, 240, 60), WATCH)
    kept = prefix_cache._questions[chat.model]
    assert all(layer.keys.shape[0] == 1 for layer in kept.cache.growing), "one row stays"
    assert kept.cache.get_seq_length() == len(kept.tokens.ids)
    with counting() as counts:
        found = chat.reply(question(255, 90), WATCH)
    assert counts.prefix_tokens_reused > 9
    expected = opened(checkpoint, prefix_tokens=0).reply(question(255, 90), WATCH)
    assert summaries([found]) == summaries([expected])
    assert found.probability == pytest.approx(expected.probability, rel=1e-4)


@pytest.fixture(scope="module", params=["small", "real-proportions"])
def random_checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with random weights, where four patches are one token and features enter at several layers."""
    shape = MODELS[request.param]._replace(layers=3)
    return build(tmp_path_factory.mktemp(request.param), default_prompt_set(), shape, [])


def test_random_models_read_a_story_the_same(random_checkpoint: Path) -> None:
    """The critic's questions of two steps with four attempts, then four candidates in a batch."""
    engines = []
    for tokens in (8192, 0):
        chat = opened(random_checkpoint, prefix_tokens=tokens)
        engines.append((chat, chat.base.engine()))
    before = [page(grey, (96, 64)) for grey in (255, 90)]
    with torch.inference_mode(), counting() as counts:
        for number in range(8):
            pictures = (before[number // 4], page(30 * number, (96, 64)))
            message = critic_message(default_prompt_set(), pictures, "Draw a boat.", f"A boat, {number}.")
            cached, fresh = (
                engine.read(chat.model, None, *chat._prompt([message], WATCH)).logits
                for chat, engine in engines
            )
            assert distance(cached, fresh) < 1e-4
        assert counts.prefix_tokens_reused > 7 * 500
        messages = [
            critic_message(default_prompt_set(), (before[1], page(grey, (96, 64))), "Draw a boat.", "A boat.")
            for grey in (0, 70, 140, 210)
        ]
        logits = []
        for chat, engine in engines:
            prompts = [chat._prompt([message], WATCH) for message in messages]
            batch = engine.read_together(chat.model, None, prompts[0][0], [shown for _, shown in prompts])
            for tokens in ([1, 2, 3, 4], [5, 6, 7, 8]):
                batch.add(tokens)
            logits.append(batch.logits)
        assert distance(*logits) < 1e-4


def test_the_parts_of_a_plan_process_only_new_tokens(random_checkpoint: Path) -> None:
    own, request = default_prompt_set(), Request(text="Tell a story about two boats in a storm, in 30 steps.")
    values = {"outline": "1. Two boats.\n2. A storm." * 10, "always": "Two boats.", "count": "30"}
    outline = planner_message(own, request, own.planner_outline, how_many="exactly 30")
    parts = [
        planner_message(own, request, own.planner_part, so_far=so_far, first=first, last=first, **values)
        for so_far, first in (("Nothing yet.", "1"), ("The boats have met.", "11"))
    ]
    chat, shares = opened(random_checkpoint), []
    for message in (outline, *parts):
        with counting() as counts:
            chat.reply([message], PLAIN.model_copy(update={"max_tokens": 1}))
        shares.append(counts.prefix_tokens_reused / (counts.prefix_tokens_reused + counts.lm_tokens))
    assert shares[0] == 0 and shares[1] > 0.3 and shares[2] > 0.9


def test_a_long_batch_is_processed_row_by_row(checkpoint: Path) -> None:
    chat = opened(checkpoint, prefix_tokens=8)
    with counting() as counts:
        chat.reply_together(candidates(20, 240), WATCH)
    assert counts.prefix_tokens_reused == 0 and chat.model not in prefix_cache._questions


def test_a_batch_of_other_shapes_leaves_the_cached_question(checkpoint: Path) -> None:
    chat = opened(checkpoint)
    chat.reply(question(255, 20), WATCH)
    other = Message(role="user", content=(page(255), page(20, (32, 64)), "Is it light?"))
    with counting() as counts:
        chat.reply_together([question(255, 20)[0], other], WATCH)
    assert counts.prefix_tokens_reused > 9


def test_a_long_question_is_not_cached(checkpoint: Path) -> None:
    chat = opened(checkpoint, prefix_tokens=8)
    chat.reply(question(255, 20), WATCH)
    with counting() as counts:
        chat.reply(question(255, 20), WATCH)
    assert counts.prefix_tokens_reused == 0 and chat.model not in prefix_cache._questions


def test_offloading_the_weights_clears_the_cache(checkpoint: Path) -> None:
    chat = opened(checkpoint)
    chat.reply(question(255, 20), WATCH)
    assert chat.model in prefix_cache._questions
    chat.base.settings = chat.base.settings.model_copy(update={"device": "meta"})
    chat.offload()
    assert chat.model not in prefix_cache._questions


def test_dropping_the_weights_clears_the_cache(checkpoint: Path) -> None:
    """Quantized weights are dropped and read again; something else may still refer to the old ones."""
    chat = opened(checkpoint)
    chat.reply(question(255, 20), WATCH)
    model = chat.model
    chat.base.release()
    assert model not in prefix_cache._questions
    with counting() as counts:
        chat.reply(question(255, 20), WATCH)
    assert counts.prefix_tokens_reused == 0


def test_a_closed_agent_leaves_nothing(checkpoint: Path) -> None:
    chat = opened(checkpoint)
    chat.reply(question(255, 20), WATCH)
    cache = weakref.ref(prefix_cache._questions[chat.model].cache)
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
