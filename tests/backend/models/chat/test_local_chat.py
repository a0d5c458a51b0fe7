"""The local chat backend with a tiny Qwen3-VL that has learned two verdicts.

It covers decoding, P(success) and the shared base.
"""

from __future__ import annotations

import gc
import logging
import shutil
import weakref
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from support import tiny_checkpoint
from support.small_agents import Counting
from support.tiny_checkpoint import HELD, PLAIN, WATCH, alike, page, question

from interleave_thinker import AnswerError, ChatError, Message, Planner, Reply, ReplySettings, open_chat
from interleave_thinker.backend.core.answers.reading import read_verdict
from interleave_thinker.backend.core.machine.counters import counting
from interleave_thinker.backend.core.prompts.prompt_set import PromptSet, default_prompt_set
from interleave_thinker.backend.core.types import ChecklistItem, Plan, Request, RunSettings, Step
from interleave_thinker.backend.models.chat.grammars import grammar_is_installed
from interleave_thinker.backend.models.chat.local import base_model, generation
from interleave_thinker.backend.models.chat.local import chat as local
from interleave_thinker.backend.models.chat.local.base_model import EngineSettings
from interleave_thinker.backend.models.chat.local.generation import (
    common_length,
    sampling_processors,
    tokens_of,
)
from interleave_thinker.backend.story.agents import critic
from interleave_thinker.backend.story.agents.critic import Critic, critic_message
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.research.experiments.agents_loops import MODELS, build


@pytest.fixture(scope="module")
def chat(checkpoint: Path) -> Any:
    return open_chat(f"transformers:{checkpoint}", device="cpu")


def plain_inputs(chat: Any, messages: list[Message]) -> Any:
    """Return the inputs that the library's processor creates for the conversation."""
    prompt, pictures = chat._prompt(messages, WATCH)
    return chat.base.processor(
        text=[prompt], images=[picture.image for picture in pictures], return_tensors="pt"
    )


def test_replies_depend_on_the_image_and_are_repeatable(chat: Any) -> None:
    light, dark = chat.reply(question(240), PLAIN), chat.reply(question(20), PLAIN)
    assert read_verdict(light.text).success is True
    assert read_verdict(dark.text).success is False
    assert dark.text == tiny_checkpoint.REFUSED
    # A text-only turn between them must leave nothing behind (rotary offsets are kept in the model).
    chat.reply(question(text="true"), PLAIN)
    assert chat.reply(question(20), PLAIN) == dark


def test_an_answer_of_one_word_has_its_probability(chat: Any, monkeypatch: Any) -> None:
    """The taught model always begins alike, so its first token takes the place of yes."""
    plain = chat.reply(question(240), PLAIN)
    first = chat.base.processor.tokenizer.encode(plain.text, add_special_tokens=False)[0]
    one_word = ReplySettings(max_tokens=4, watch_yes_no=True)
    reply = chat.reply(question(240), one_word)
    assert reply.tokens == 4, "what follows may take the first word back"
    assert reply.probability is None, "its first word is neither yes nor no"
    for tokens, high in ((((first,), (first + 1,)), True), (((first + 1,), (first,)), False)):
        monkeypatch.setattr(chat, "_yes_no_tokens", tokens)
        probability = chat.reply(question(240), one_word).probability
        assert probability is not None and (probability > 0.9) is high
    assert chat.reply(question(240), WATCH).text == plain.text


def test_questions_about_one_image_read_it_once(chat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(critic, "read_yes_no", lambda text: True)
    items = [ChecklistItem(text=text) for text in ("true", "false", "True")]
    with counting() as counts:
        Critic(chat).check(page(33), page(77), "Is it light?", items)
    asked = plain_inputs(chat, question(33, 77))["input_ids"].shape[1]
    assert counts.cached_tokens > asked, "the images and the prompt are read once"


@pytest.mark.skipif(not grammar_is_installed(), reason="llguidance is not installed")
def test_decoding_under_the_grammar_stops_at_a_true_verdict_and_only_there(chat: Any) -> None:
    watched, whole = chat.reply(question(240), HELD), chat.reply(question(240), PLAIN)
    assert watched.finish == "verdict"
    assert watched.text == whole.text[: len(watched.text)]
    assert watched.text.endswith('"previous_step_success": true,')
    assert watched.tokens < whole.tokens
    refused = chat.reply(question(20), HELD)
    assert (refused.text, refused.finish) == (tiny_checkpoint.REFUSED, "end")
    free = chat.reply(question(240), WATCH)
    assert (free.text, free.finish) == (whole.text, "end"), "a model may correct itself after its answer"


def test_questions_asked_together_are_rendered_once(chat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [chat.reply(question(grey), PLAIN) for grey in (240, 20)]
    asked, rendered = [question(grey)[0] for grey in (240, 20)], local.rendered
    other = question(240, text="false")[0]
    apart = chat.reply([other], PLAIN)
    seen: list[Any] = []

    def render(*given: Any) -> str:
        assert chat.base.lock._is_owned(), "the processor belongs to the model"
        seen.append(given)
        return rendered(*given)

    monkeypatch.setattr(local, "rendered", render)
    assert [one.text for one in chat.reply_together(asked, PLAIN)] == [one.text for one in alone]
    found = chat.reply_together([asked[0], other], PLAIN)
    assert [one.text for one in found] == [alone[0].text, apart.text], "questions that differ in their words"
    assert len(seen) == 4


def test_sampling_follows_its_seed_and_leaves_the_global_one_alone(chat: Any) -> None:
    import torch

    hot = PLAIN.model_copy(update={"temperature": 2.0})
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    replies = [chat.reply(question(120), hot.model_copy(update={"seed": seed})).text for seed in (1, 1, 2)]
    assert torch.rand(1) == expected
    assert replies[0] == replies[1] != replies[2]
    greedy = chat.reply(question(120), PLAIN).text
    assert chat.reply(question(120), hot.model_copy(update={"top_k": 1})).text == greedy != replies[0]


def test_linear_patches_are_the_convolution(chat: Any, checkpoint: Path) -> None:
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    plain = Qwen3VLForConditionalGeneration.from_pretrained(checkpoint, dtype="float32")
    patches = torch.randn(18, 3 * 2 * 16 * 16)
    with torch.no_grad():
        ours, theirs = (model.model.visual.patch_embed(patches) for model in (chat.model, plain))
    assert torch.allclose(ours, theirs, atol=1e-5)
    assert "forward" in vars(chat.model.model.visual.patch_embed)
    assert "forward" not in vars(plain.model.visual.patch_embed)


def test_grouped_attention_computes_what_the_library_does(tmp_path: Path) -> None:
    """The heads share keys, and padding makes a mask necessary."""
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    folder = build(tmp_path, default_prompt_set(), MODELS["real-proportions"]._replace(layers=2), [])
    plain = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype="float32")
    inputs = {"input_ids": torch.arange(5, 25)[None], "attention_mask": torch.ones(1, 20).long()}
    inputs["attention_mask"][0, :4] = 0
    with torch.no_grad():
        ours, theirs = (model(**inputs).logits[:, 4:] for model in (decoding(folder).model, plain))
    assert torch.allclose(ours, theirs, atol=1e-4)


def test_a_base_is_gone_with_its_last_chat(checkpoint: Path) -> None:
    agent = open_chat(f"transformers:{checkpoint}", device="cpu", dtype="bfloat16")
    assert agent.identity.count("bfloat16") == 1
    base = weakref.ref(agent.base)
    del agent
    gc.collect()
    assert base() is None


def test_a_model_without_its_adapter_never_answers(
    checkpoint: Path, adapters: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = local.open(str(checkpoint), device="cpu", share=False, adapter=str(adapters[0]))
    before = chat.reply(question(240), PLAIN)
    chat.base.release()
    with monkeypatch.context() as patch:
        patch.setattr(base_model, "attach", Mock(side_effect=RuntimeError("out of memory")))
        for _ in range(2):
            with pytest.raises(ChatError, match="out of memory"):
                chat.reply(question(240), PLAIN)
    assert chat.reply(question(240), PLAIN) == before


def test_an_adapter_has_its_prompt_set(checkpoint: Path, adapters: tuple[Path, Path], tmp_path: Path) -> None:
    own, tuned = (shutil.copytree(one, tmp_path / one.name) for one in (checkpoint, adapters[0]))
    for folder in (own, tuned):
        texts = dict.fromkeys(("planner_text", "planner_images"), "{text_input}")
        PromptSet(**texts, critic=folder.name).save(folder / "prompt_set")
    agents = (
        open_chat(f"transformers:{own}", device="cpu", adapter=adapter) for adapter in (None, str(tuned))
    )
    assert [one.prompt_set and one.prompt_set.critic for one in agents] == [own.name, tuned.name]


@pytest.mark.parametrize("quantization", ["8bit", "4bit"])
def test_quantized_agents_reply(checkpoint: Path, quantization: str) -> None:
    for library in ("bitsandbytes", "accelerate"):
        pytest.importorskip(library)
    agent: Any = open_chat(f"transformers:{checkpoint}", device=GPU, quantization=quantization)
    kinds = {name: type(module).__name__ for name, module in agent.model.named_modules()}
    assert "Linear4bit" in kinds.values() or "Linear8bitLt" in kinds.values()
    assert all("bit" not in kind for name, kind in kinds.items() if "visual" in name or "lm_head" in name)
    before: Reply = alike(agent.reply(question(240), PLAIN))
    assert before.tokens > 0 and quantization in agent.identity
    with counting() as counts:
        agent.offload()
        assert agent.model is None, "quantized weights are read again"
        assert agent.reply(question(240), PLAIN) == before
    assert (counts.agents_offloaded, counts.agents_loaded) == (1, 1)


def test_an_answer_ends_where_the_context_does(checkpoint: Path) -> None:
    chat = local.open(str(checkpoint), device="cpu", share=False)
    asked = plain_inputs(chat, question(240))["input_ids"].shape[1]
    text = chat.model.config.get_text_config()
    long = PLAIN.model_copy(update={"max_tokens": 60000})
    text.max_position_embeddings = asked + 5
    reply = chat.reply(question(240), long)
    assert (reply.tokens, reply.finish) == (5, "length")
    text.max_position_embeddings = asked
    with pytest.raises(ChatError, match=r"the context of .* is \d+\. Show it fewer or smaller images"):
        chat.reply(question(240), long)


def test_top_k_and_top_p_apply_in_this_order_only_above_temperature_0() -> None:
    import torch

    scores = torch.tensor([[0.1, 0.2, 0.3, 0.4]]).log()
    for narrowed, kept in (
        ({}, [True, True, True, True]),
        ({"top_k": 2}, [False, False, True, True]),
        ({"top_p": 0.8}, [False, True, True, True]),
        ({"top_p": 0.5, "top_k": 2}, [False, False, False, True]),
    ):
        left = scores
        for process in sampling_processors(ReplySettings(temperature=1.0, **narrowed)):
            left = process(None, left)
        assert left.isfinite().tolist() == [kept]
        assert torch.equal(left[left.isfinite()], scores[torch.tensor([kept])])
        assert not sampling_processors(ReplySettings(temperature=0.0, **narrowed))


# Several agents on one base, and the kept question


GPU = "cpu:0"
"""Computes like `cpu` but compares unequal to it, so that weights are loaded and offloaded as on a GPU."""
BRIEF = WATCH.model_copy(update={"max_tokens": 30})
ASKED = [(question(255, 240), BRIEF), (question(255, 20), BRIEF), (question(20), PLAIN)]


def opened(checkpoint: Path, **options: Any) -> Any:
    return open_chat(f"transformers:{checkpoint}", **{"device": "cpu", "dtype": "float32"} | options)


def test_two_adapters_on_one_base_reply_as_each_alone(checkpoint: Path, adapters: tuple[Path, Path]) -> None:
    """Interleaved, with all caches."""
    alone = [opened(checkpoint, adapter=str(folder), share=False) for folder in adapters]
    expected = [[chat.reply(*asked) for asked in ASKED] for chat in alone]
    together = [opened(checkpoint, adapter=str(folder)) for folder in adapters]
    assert together[0].weights is together[1].weights
    for _ in range(2):
        for number, asked in enumerate(ASKED):
            for chat, replies in zip(together, expected, strict=True):
                assert chat.reply(*asked) == alike(replies[number])
    assert expected[0] != expected[1]


@pytest.mark.parametrize("first", [0, 1])
def test_an_adapter_that_fails_while_it_is_attached_leaves_the_base_as_it_was(
    first: int, checkpoint: Path, adapters: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a base without adapters, and on one that has another adapter."""
    import peft

    agents = [opened(checkpoint), *(opened(checkpoint, adapter=str(one)) for one in adapters[:first])]
    before = [alike(chat.reply(*asked)) for chat in agents for asked in ASKED]
    attach = peft.set_peft_model_state_dict

    def fails(*arguments: Any, **options: Any) -> None:
        attach(*arguments, **options)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(peft, "set_peft_model_state_dict", fails)
    with pytest.raises(ChatError, match="out of memory"):
        opened(checkpoint, adapter=str(adapters[1]))
    monkeypatch.undo()
    assert [chat.reply(*asked) for chat in agents for asked in ASKED] == before
    again = opened(checkpoint, adapter=str(adapters[1]))
    alone = opened(checkpoint, adapter=str(adapters[1]), share=False)
    assert again.reply(*ASKED[0]) == alike(alone.reply(*ASKED[0]))
    assert [chat.reply(*asked) for chat in agents for asked in ASKED] == before


class PlannerByModel(Planner):
    """Calls its model, and returns a plan of two steps for any reply."""

    def plan(self, request: Request, on_token: Any = None) -> Plan:
        self.chat.reply(question(text="plan"), ReplySettings(max_tokens=2))
        return Plan(steps=(Step(number=1, prompt="a house"), Step(number=2, prompt="a boat")))


def run_counted(planner: Any, critic: Any) -> Any:
    settings = RunSettings(max_attempts=2)
    # Random adapters may write verdicts that cannot be parsed, which ends a run.
    with counting() as counts, suppress(AnswerError):
        list(
            run(
                Request(text="two"),
                Collaborators(PlannerByModel(planner), Counting(size=48), Critic(critic, settings=WATCH)),
                settings,
            )
        )
    return counts


def test_the_planner_is_offloaded_and_loaded_again_only_on_use(checkpoint: Path, tmp_path: Path) -> None:
    other = shutil.copytree(checkpoint, tmp_path / "critic")
    with counting() as loading:
        planner, critic = opened(checkpoint, device=GPU), opened(other, device=GPU)
    assert loading.agents_loaded == 0, "weights stay in RAM until the first reply"
    counts = run_counted(planner, critic)
    assert counts.judgements > 1
    assert (counts.agents_loaded, counts.agents_offloaded) == (2, 1)
    with counting() as counts:
        critic.reply(*ASKED[0])
    assert counts.agents_loaded == 0
    with counting() as counts:
        again = planner.reply(*ASKED[0])
    assert counts.agents_loaded == 1
    there = opened(checkpoint).reply(*ASKED[0])
    assert (again.text, again.finish) == (there.text, there.finish)
    assert again.probability == pytest.approx(there.probability, rel=1e-4)


def test_weights_that_are_shared_or_in_ram_stay(checkpoint: Path, adapters: tuple[Path, Path]) -> None:
    options = {"device": GPU, "dtype": "bfloat16"}
    planner, critic = (opened(checkpoint, adapter=str(folder), **options) for folder in adapters)
    counts = run_counted(planner, critic)
    assert (counts.agents_loaded, counts.agents_offloaded) == (1, 0)
    chat = opened(checkpoint)
    with counting() as counts:
        chat.offload()
        chat.reply(*ASKED[2])
    assert (counts.agents_loaded, counts.agents_offloaded) == (0, 0)


IMAGE = 99


@pytest.mark.parametrize(
    ("first", "second", "length"),
    [
        ((1, 2, 3), (1, 2, 4), 2),
        ((1, 2, 3), (1, 2), 1),
        ((1, "a", 2), (1, "a", 3), 4),
        ((1, "a", 2), (1, "b", 2), 1),
    ],
)
def test_the_common_beginning_of_two_questions_is_found(first: Any, second: Any, length: int) -> None:
    def tokens(*parts: int | str) -> list[int | str]:
        """Return single tokens and images of three tokens each, given by their digests."""
        ids = [token for part in parts for token in ([part] if isinstance(part, int) else [IMAGE] * 3)]
        return tokens_of(ids, IMAGE, [part for part in parts if isinstance(part, str)])

    assert common_length(tokens(*first), tokens(*second)) == length


def decoding(checkpoint: Path, **settings: Any) -> Any:
    engine = EngineSettings(**settings)
    return local.open(str(checkpoint), device="cpu", dtype="float32", share=False, engine=engine)


def test_attempts_of_a_step_read_only_new_tokens(checkpoint: Path) -> None:
    chat, fresh = decoding(checkpoint), decoding(checkpoint, prefix_tokens=0)
    read = []
    for grey in (20, 240, 20, 60):
        with counting() as counts:
            reply = chat.reply(question(255, grey), WATCH)
        expected = fresh.reply(question(255, grey), WATCH)
        assert (reply.text, reply.tokens, reply.finish) == (expected.text, expected.tokens, expected.finish)
        assert reply.probability == pytest.approx(expected.probability, rel=1e-4)
        read.append(counts.cached_tokens)
    assert read[0] == 0 and all(tokens > 9 for tokens in read[1:]), "the first image has 9 tokens"
    with counting() as counts:
        found = chat.reply(question(30, 20), WATCH)
    assert counts.cached_tokens < 9, "another first image"
    assert found.text == fresh.reply(question(30, 20), WATCH).text


def test_a_random_model_answers_a_story_the_same(tmp_path: Path) -> None:
    """Four patches are one token, and features enter at several layers; questions of two steps."""
    folder = build(tmp_path, default_prompt_set(), MODELS["real-proportions"]._replace(layers=3), [])
    chats = [decoding(folder, prefix_tokens=tokens) for tokens in (8192, 0)]
    before = [page(grey, (96, 64)) for grey in (255, 90)]
    with counting() as counts:
        for number in range(4):
            pictures = (before[number // 2], page(30 * number, (96, 64)))
            message = critic_message(default_prompt_set(), pictures, "Draw a boat.", f"A boat, {number}.")
            cached, fresh = (chat.reply([message], ReplySettings(max_tokens=12)) for chat in chats)
            assert cached == fresh
    assert counts.cached_tokens > 3 * 500
    assert counts.lm_forwards < 2 * 4 * 12, "some tokens were drafted"
    with counting() as counts:
        assert chats[0].reply([message], ReplySettings(max_tokens=12)) == fresh
    assert counts.lm_forwards <= 5, "a reply is drafted from earlier ones"


def test_a_library_that_answers_differently_is_noticed(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel

    rope_index = Qwen3VLModel.get_rope_index
    chat = decoding(checkpoint)
    expected = decoding(checkpoint, prefix_tokens=0).reply(question(255, 240), WATCH).text
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
    assert counts.cached_tokens == 0


def test_a_long_question_is_not_kept(checkpoint: Path) -> None:
    chat = decoding(checkpoint, prefix_tokens=8)
    with counting() as counts:
        for _ in range(2):
            chat.reply(question(255, 20), WATCH)
    assert counts.cached_tokens == 0 and chat.model not in generation._questions


@pytest.mark.parametrize("leave", ["offload", "release"])
def test_the_cache_leaves_with_the_weights(checkpoint: Path, leave: str) -> None:
    chat = decoding(checkpoint)
    chat.reply(question(255, 20), WATCH)
    cache = weakref.ref(generation._questions[chat.model].cache)
    chat.base.settings = chat.base.settings.model_copy(update={"device": "meta"})
    getattr(chat.base, leave)()
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
    assert counts.cached_tokens == 0


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_decoding_is_compiled_if_it_pays_and_is_exact(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, shift: float
) -> None:
    """A GPU is imitated, so nothing is compiled. A shift makes the library's static cache wrong."""
    from transformers.cache_utils import StaticLayer

    update, chat = StaticLayer.update, decoding(checkpoint)

    def shifted(*given: Any, **options: Any) -> Any:
        keys, values = update(*given, **options)
        return keys, values + shift

    monkeypatch.setattr(StaticLayer, "update", shifted)
    monkeypatch.setattr(generation, "_compiles", lambda ids: True)
    expected = chat.reply(question(255, 240), WATCH)
    assert chat.model in generation._questions, "the first reply is not worth compiling"
    monkeypatch.setattr(generation, "STATIC_AFTER", expected.tokens)
    reply = chat.reply(question(255, 240), WATCH)
    assert (chat.model in generation._questions) == ("Decoding is not compiled" in caplog.text) == bool(shift)
    assert (reply.text, reply.finish) == (expected.text, expected.finish)
    assert reply.probability == pytest.approx(expected.probability, rel=1e-4)
