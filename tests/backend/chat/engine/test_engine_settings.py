"""Engine settings change no reply: each alone and all together, compared with `generate`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from support import tiny_checkpoint
from support.tiny_checkpoint import HELD, PLAIN, WATCH, page, question

from interleave_thinker.backend.chat import Message, Reply, ReplySettings
from interleave_thinker.backend.chat.engine.settings import PLAIN as OFF
from interleave_thinker.backend.chat.engine.settings import EngineSettings
from interleave_thinker.backend.chat.local import chat as local
from interleave_thinker.backend.chat.local.grammar_processor import grammar_is_installed
from interleave_thinker.backend.machine.counters import Counts, counting

ENGINE = OFF.model_copy(update={"enabled": True})
WAYS = {
    "linear patches": OFF.model_copy(update={"linear_patches": True}),
    "the engine alone": ENGINE,
    "inline layers": ENGINE.model_copy(update={"inline_layers": True}),
    "images seen once": ENGINE.model_copy(update={"vision_bytes": 1 << 20}),
    "prompt lookup, inline layers": ENGINE.model_copy(
        update={"inline_layers": True, "prompt_lookup_tokens": 8}
    ),
    "prompt lookup, the library's layers": ENGINE.model_copy(update={"prompt_lookup_tokens": 8}),
    "common beginnings, inline layers": ENGINE.model_copy(
        update={"inline_layers": True, "prefix_tokens": 512}
    ),
    "common beginnings, the library's layers": ENGINE.model_copy(update={"prefix_tokens": 512}),
    "all": EngineSettings(),
}
HOT = PLAIN.model_copy(update={"temperature": 1.5, "seed": 3})
NARROWED = HOT.model_copy(update={"temperature": 4.0, "top_k": 20, "top_p": 0.9})
ASKED: list[tuple[list[Message], ReplySettings]] = [
    (question(240), WATCH),
    (question(20), WATCH),
    (question(255, 240), WATCH),
    (question(255, 20), WATCH),
    (question(255, 20), PLAIN),
    (question(255, 60, 90), HOT),
    (question(255, 60, 90), NARROWED),
    (question(text="no image at all"), PLAIN),
    (question(255, 240), WATCH),
    ([*question(200, 100), Message(role="assistant", content=("?",)), *question(30)], PLAIN),
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.taught_checkpoint(tmp_path_factory.getbasetemp())


def opened(checkpoint: Path, engine: EngineSettings) -> Any:
    return local.open(str(checkpoint), device="cpu", dtype="float32", share=False, engine=engine)


@pytest.fixture(scope="module")
def expected(checkpoint: Path) -> list[Reply]:
    chat = opened(checkpoint, OFF)
    replies = [chat.reply(*asked) for asked in ASKED]
    assert chat.base.engine() is None
    assert "end" in {reply.finish for reply in replies}
    return replies


@pytest.mark.parametrize("way", WAYS)
def test_no_setting_changes_a_reply(way: str, checkpoint: Path, expected: list[Reply]) -> None:
    chat = opened(checkpoint, WAYS[way])
    for asked, reply in zip(ASKED, expected, strict=True):
        found = chat.reply(*asked)
        assert (found.text, found.tokens, found.finish) == (reply.text, reply.tokens, reply.finish)
        assert (found.probability is None) == (reply.probability is None)
        assert (found.probability or 0.0) == pytest.approx(reply.probability or 0.0, rel=1e-4)
    assert not chat.base.switched_off


def test_a_reply_does_not_depend_on_what_is_cached(checkpoint: Path) -> None:
    """To rounding: a run that was resumed judges as one that was not stopped."""
    chat = opened(checkpoint, EngineSettings())
    chat.reply(question(255, 60), WATCH)
    with counting() as counts:
        cached = chat.reply(question(255, 240), WATCH)
    assert counts.images_kept == 1
    with counting() as counts:
        fresh = opened(checkpoint, EngineSettings()).reply(question(255, 240), WATCH)
    assert counts.images_seen == 2
    assert fresh.probability == pytest.approx(cached.probability, rel=1e-4)
    assert fresh.model_copy(update={"probability": cached.probability}) == cached


def counted(chat: Any, messages: list[Message], settings: ReplySettings = WATCH) -> tuple[Counts, Counts]:
    """Return one reply with the product's counters, and the counts of hooks on the modules."""
    seen = Counts()

    def on_language(module: Any, given: Any, options: dict[str, Any]) -> None:
        seen.lm_forwards += 1
        seen.lm_tokens += given[0].shape[1]

    def on_vision(module: Any, given: Any, options: dict[str, Any]) -> None:
        seen.images_seen += 1
        seen.vision_patches += given[0].shape[0]

    inner = chat.model.model
    hooks = [
        inner.language_model.rotary_emb.register_forward_pre_hook(on_language, with_kwargs=True),
        inner.visual.register_forward_pre_hook(on_vision, with_kwargs=True),
    ]
    with counting() as counts:
        chat.reply(messages, settings)
    for hook in hooks:
        hook.remove()
    return counts, seen


def test_counters_match_computed_and_saved_passes(checkpoint: Path) -> None:
    chat = opened(checkpoint, EngineSettings())
    chat.base.engine()
    first, modules = counted(chat, question(255, 20))
    assert (first.lm_forwards, first.lm_tokens) == (modules.lm_forwards, modules.lm_tokens)
    assert (
        (first.images_seen, first.vision_patches) == (modules.images_seen, modules.vision_patches) == (2, 18)
    )
    again, modules = counted(chat, question(255, 20))
    assert (again.images_seen, again.images_kept, modules.images_seen) == (0, 2, 0)
    assert again.lm_forwards == first.lm_forwards
    assert again.lm_tokens + again.prefix_tokens_reused == first.lm_tokens
    assert again.prefix_tokens_reused > 0 and again.lm_tokens == modules.lm_tokens
    other, _ = counted(chat, question(255, 240))
    assert (other.images_seen, other.images_kept, other.stops_at_true) == (1, 1, 0)


@pytest.mark.skipif(not grammar_is_installed(), reason="llguidance is not installed")
def test_a_stop_at_true_is_counted_and_saves_passes(checkpoint: Path) -> None:
    chat = opened(checkpoint, EngineSettings())
    chat.base.engine()
    (stopped, _), (whole, _) = (counted(chat, question(255, 240), settings) for settings in (HELD, WATCH))
    assert (stopped.stops_at_true, whole.stops_at_true) == (1, 0)
    assert stopped.lm_forwards < whole.lm_forwards


@pytest.mark.parametrize("inline", [True, False])
def test_prompt_lookup_saves_passes_and_changes_no_token(checkpoint: Path, inline: bool) -> None:
    """Drafts of repetitive answers, sampled answers, and an answer that ends inside a draft."""
    settings = ENGINE.model_copy(update={"inline_layers": inline})
    one_by_one = opened(checkpoint, settings)
    drafting = opened(checkpoint, settings.model_copy(update={"prompt_lookup_tokens": 8}))
    repeated = "the door the door the door the door "
    with counting() as without:
        expected = [
            one_by_one.reply(question(255, 20, text=repeated), asked) for asked in (PLAIN, HOT, WATCH)
        ]
    with counting() as counts:
        found = [drafting.reply(question(255, 20, text=repeated), asked) for asked in (PLAIN, HOT, WATCH)]
    assert [reply.text for reply in found] == [reply.text for reply in expected]
    assert counts.drafts_read > counts.drafts_used > 0
    # The tokens at the end that were drafted and not chosen any more need no pass either.
    assert counts.lm_forwards == without.lm_forwards - counts.drafts_used
    assert counts.lm_tokens == without.lm_tokens - counts.drafts_used + counts.drafts_read


def test_each_adapter_has_its_own_cache_entries(
    checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folders = tiny_checkpoint.two_adapters(tmp_path_factory.getbasetemp())
    one, two = (
        local.open(str(checkpoint), adapter=str(folder), device="cpu", engine=EngineSettings())
        for folder in folders
    )
    assert one.model is two.model
    for chat in (one, two):
        with counting() as counts:
            chat.reply(question(255, 20), WATCH)
        assert (counts.images_seen, counts.images_kept) == (2, 0)


def test_a_budget_is_respected(checkpoint: Path) -> None:
    features = 9 * 64 * 4 * 2
    chat = opened(checkpoint, ENGINE.model_copy(update={"vision_bytes": 2 * features}))
    for grey, seen in ((0, 1), (100, 1), (0, 0), (200, 1), (0, 0), (100, 1)):
        with counting() as counts:
            chat.reply(question(grey), ReplySettings(max_tokens=1))
        assert counts.images_seen == seen, grey


def test_prompts_are_the_librarys(checkpoint: Path) -> None:
    import torch

    from interleave_thinker.backend.chat.engine.rope_positions import position_ids_of, prompt_tokens
    from interleave_thinker.backend.chat.engine.vision_cache import VisionCache

    chat = opened(checkpoint, EngineSettings())
    processor, config = chat.base.processor, chat.model.config
    pictures = [page(255), page(10, (64, 32)), page(90, (32, 80))]
    content = (pictures[0], "a <b>", pictures[1], pictures[2], "c")
    prompt, shown = chat._prompt([Message(role="user", content=content)], WATCH)
    vision = VisionCache(processor.image_processor, 1 << 20)
    with torch.inference_mode():
        images = [vision.features(chat.model, None, picture) for picture in shown]
    assert len({image.grid for image in images}) == 3
    digests = [picture.digest for picture in shown]
    ours = prompt_tokens(processor.tokenizer, prompt, config.image_token_id, images, digests, 1)
    theirs = processor(text=[prompt], images=[picture.image for picture in shown], return_tensors="pt")
    assert list(ours.ids) == theirs["input_ids"][0].tolist()
    rope_index = chat.model.model.get_rope_index
    # Later versions of transformers need the types of tokens; earlier ones derive them from the ids.
    types = {"mm_token_type_ids": (theirs["input_ids"] == config.image_token_id).int()}
    given = types if "mm_token_type_ids" in inspect.signature(rope_index).parameters else {}
    position_ids, deltas = rope_index(theirs["input_ids"], image_grid_thw=theirs["image_grid_thw"], **given)
    assert torch.equal(ours.position_ids[1:], position_ids)
    assert ours.next_position == len(ours.ids) + int(deltas)
    # With several patches to a token, as the real models have it.
    assert position_ids_of([1, 7, 7, 2], 7, [(1, 2, 4)], 2)[1:, 0].tolist() == [
        [0, 1, 1, 3],
        [0, 1, 1, 3],
        [0, 1, 2, 3],
    ]
