"""Agents of untested families: a small model of each with random weights replies like the library alone.

It also sees its images and meets the contract of chat backends.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.small_families import FAMILIES, save_family
from support.tiny_checkpoint import ACCEPTED, page

from interleave_thinker import ChatError, Message, ReplySettings, open_chat
from interleave_thinker.backend.core.answers.reading import read_verdict
from interleave_thinker.backend.models.chat.grammars import grammar_is_installed
from interleave_thinker.backend.models.chat.local.chat import controls_of
from interleave_thinker.backend.models.chat.verdict_watch import verdict_tokens
from interleave_thinker.backend.models.checkpoints.checkpoint import check_family, looks_like_an_agent

SHORT = ReplySettings(max_tokens=8)
SIZES = ((64, 48), (80, 80))
logging.getLogger("transformers").setLevel(logging.ERROR)


@pytest.fixture(scope="module", params=FAMILIES)
def chat(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("families") / request.param
    return open_chat(f"transformers:{save_family(request.param, folder)}", device="cpu")


def ask(*grey: int, text: str = "Is it light?") -> list[Message]:
    pages = [page(shade, size) for shade, size in zip(grey, SIZES, strict=False)]
    return [Message(role="user", content=("before", *pages, text))]


def test_families_other_than_qwen3_vl_are_marked_untested(chat: Any) -> None:
    assert chat.base.is_tested == chat.base.family.startswith("qwen3_vl") == chat.answers_together


def test_a_family_replies_like_the_library(chat: Any) -> None:
    """The library renders and tokenizes the conversation in one call, which is another way than ours."""
    import torch

    content: list[dict[str, Any]] = [{"type": "text", "text": "before"}]
    pages = [page(shade, size).image for shade, size in zip((20, 200), SIZES, strict=True)]
    content += [{"type": "image", "image": one} for one in pages]
    content += [{"type": "text", "text": "Is it light?"}]
    given = chat.base.processor.apply_chat_template(
        [{"role": "user", "content": content}],
        tokenize=True,
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
    )
    reply = chat.reply(ask(20, 200), SHORT)
    with torch.inference_mode():
        ids = chat.base.model.generate(**given, max_new_tokens=8, do_sample=False)
    expected = chat.base.processor.tokenizer.decode(ids[0, given["input_ids"].shape[1] :])
    assert reply.text == expected.removesuffix("<|im_end|>")
    pieces: list[str] = []
    assert reply == chat.reply(ask(20, 200), SHORT, pieces.append) and "".join(pieces) == reply.text


def test_control_tokens_in_a_text_are_encoded_as_text(chat: Any) -> None:
    """A user's text is never taken for an image or for the end of a turn."""
    tokenizer = chat.base.processor.tokenizer
    marks = controls_of(chat.base.processor, chat.base.is_tested)
    assert "<|im_end|>" in marks
    text = f"{' '.join(marks)} <think> is ours"
    prompt, pictures = chat._prompt(ask(20, text=text), SHORT)
    plain, _ = chat._prompt(ask(20, text="x"), SHORT)
    count = {mark: prompt.count(mark) for mark in marks}
    assert count == {mark: plain.count(mark) for mark in marks} and "<think>" in prompt
    assert len(pictures) == 1 and tokenizer("<think>")["input_ids"]
    chat.reply(ask(20, text=text), SHORT)


@pytest.mark.skipif(not grammar_is_installed(), reason="llguidance is not installed")
def test_a_reply_held_to_the_grammar_is_a_verdict(chat: Any) -> None:
    """Without the grammar, replies of random weights cannot be parsed."""
    reply = chat.reply(ask(20, 200), ReplySettings(max_tokens=160, grammar="verdict", watch_verdict=True))
    verdict = read_verdict(reply.whole)
    assert (reply.finish == "verdict") <= bool(verdict.success)


def test_a_true_verdict_has_its_probability(chat: Any) -> None:
    import torch

    tokens = chat.base.processor.tokenizer(ACCEPTED, add_special_tokens=False)["input_ids"]
    tokens.append(chat.model.generation_config.eos_token_id)
    raw: list[Any] = []

    def dictate(ids: Any, scores: Any) -> Any:
        raw.append(scores[0].clone())
        forced = torch.full_like(scores, float("-inf"))
        forced[0, tokens[len(raw) - 1]] = 0.0
        return forced

    chat.processors.append(dictate)
    try:
        reply = chat.reply(ask(20, 200), ReplySettings(max_tokens=160, watch_verdict=True))
    finally:
        chat.processors.clear()
    assert (reply.finish, reply.text) == ("end", ACCEPTED)
    sides = verdict_tokens(chat.base.processor.tokenizer)
    (at,) = [number for number, token in enumerate(tokens[: len(raw)]) if token in sides[0]]
    true, false = (raw[at][list(side)].float().logsumexp(-1) for side in sides)
    assert reply.probability == pytest.approx(float(torch.sigmoid(true - false)), abs=1e-5)


def test_an_unknown_model_family_is_rejected() -> None:
    check_family("gemma3", "a folder")
    for family in ("llama", "clip", "brand_new", None, ["gemma3"], {}):
        with pytest.raises(ChatError, match=r"does not support.*Update transformers"):
            check_family(str(family) if isinstance(family, (list, dict)) else family, "a folder")


@pytest.mark.parametrize(
    ("config", "offered"),
    [
        ({"model_type": "qwen3_vl"}, True),
        ({"architectures": ["Glm4vForConditionalGeneration"], "vision_config": {}}, True),
        ({"architectures": ["CLIPModel"], "vision_config": {}}, False),
        ({"architectures": "Glm4vForConditionalGeneration", "vision_config": {}}, False),
        (None, False),
    ],
)
def test_folders_are_offered_by_their_configuration_alone(config: Any, offered: bool) -> None:
    assert looks_like_an_agent(config) is offered
