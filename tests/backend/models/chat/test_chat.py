"""Chat backends: their common contract, where a verdict is found in a reply, image sizes, scripts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import tiny_checkpoint
from support.chat_server import chat_server
from support.fake_llama_server import write_agent, write_program
from support.tiny_checkpoint import PLAIN, WATCH, page, question

from interleave_thinker import AnswerError, Cancelled, ChatError, SettingsError
from interleave_thinker.backend.core.answers.reading import read_verdict
from interleave_thinker.backend.core.seams.chat_model import MAX_PIXELS, scaled_down
from interleave_thinker.backend.models.chat import REGISTRY, ChatModel, Reply, ReplySettings, open_chat
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.models.chat.verdict_watch import (
    VerdictWatch,
    probability_of_true,
    verdict_tokens,
)


@contextmanager
def local(checkpoint: Path, folder: Path) -> Iterator[ChatModel]:
    yield open_chat(f"transformers:{checkpoint}", device="cpu")


@contextmanager
def server(checkpoint: Path, folder: Path) -> Iterator[ChatModel]:
    with chat_server(tiny_checkpoint.ACCEPTED) as running:
        yield open_chat(f"openai:{running.spec}")


@contextmanager
def scripted(checkpoint: Path, folder: Path) -> Iterator[ChatModel]:
    (folder / "script.json").write_text(json.dumps([tiny_checkpoint.ACCEPTED] * 9))
    yield open_chat(f"scripted:{folder / 'script.json'}")


@contextmanager
def llamacpp(checkpoint: Path, folder: Path) -> Iterator[ChatModel]:
    if os.name == "nt":
        pytest.skip("the stand-in for llama.cpp's server is a shell script")
    program = write_program(folder, text=tiny_checkpoint.ACCEPTED)
    yield open_chat(f"llamacpp:{write_agent(folder / 'models')}", llama_server=str(program))


BACKENDS = {"transformers": local, "openai": server, "llamacpp": llamacpp, "scripted": scripted}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, checkpoint: Path, tmp_path: Path) -> Iterator[ChatModel]:
    opened: AbstractContextManager[ChatModel] = BACKENDS[request.param](checkpoint, tmp_path)
    with opened as model:
        yield model


def test_every_backend_is_tested() -> None:
    # The tiny world's is the local one with a checkpoint of its own.
    assert set(REGISTRY) - set(BACKENDS) <= {"tinyworld"}


def test_a_backend_replies_and_has_an_identity(backend: ChatModel) -> None:
    assert isinstance(backend, ChatModel)
    assert backend.identity == backend.identity
    assert backend.prompt_set is None
    reply = backend.reply(question(240), PLAIN)
    assert reply.text == tiny_checkpoint.ACCEPTED
    assert reply.tokens > 0
    assert reply.finish == "end"
    assert reply.probability is None


def test_a_backend_streams_what_it_replies(backend: ChatModel) -> None:
    pieces: list[str] = []
    reply = backend.reply(question(240), WATCH, pieces.append)
    assert "".join(pieces) == reply.text
    assert len(pieces) > 3
    assert read_verdict(reply.text).success is True


def test_a_script_that_runs_out_or_is_none_raises(tmp_path: Path) -> None:
    chat = ScriptedChat(["one"])
    assert chat.reply(question(1), PLAIN).text == "one"
    assert (chat.requests[0].messages, chat.requests[0].settings) == (tuple(question(1)), PLAIN)
    with pytest.raises(ChatError, match="1 replies"):
        chat.reply(question(1), PLAIN)
    (tmp_path / "script.json").write_text("[1]")
    for name in ("script", "gone"):
        with pytest.raises(SettingsError, match=rf"{name}\.json"):
            open_chat(f"scripted:{tmp_path / name}.json")


def test_a_backend_stops_when_cancelled(backend: ChatModel) -> None:
    seen: list[str] = []

    def cancel(text: str) -> None:
        seen.append(text)
        if len(seen) == 3:
            raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        backend.reply(question(240), PLAIN, cancel)
    assert len(seen) == 3
    assert backend.reply(question(240), PLAIN).text == tiny_checkpoint.ACCEPTED


THREADS = 4


def test_parallel_threads_get_the_results_of_single_calls(backend: ChatModel) -> None:
    """Greedy and sampled replies, with and without a listener, at the same time."""
    sampled = [
        PLAIN.model_copy(update={"temperature": 1.5, "seed": seed, "max_tokens": 24}) for seed in (1, 2)
    ]
    asked = [(240, PLAIN), (40, sampled[0]), (120, WATCH), (240, sampled[1])]
    alone = [backend.reply(question(shade), settings).text for shade, settings in asked]
    start = Barrier(THREADS)

    def ask(number: int) -> str:
        shade, settings = asked[number]
        pieces: list[str] = []
        start.wait()
        reply = backend.reply(question(shade), settings, pieces.append if number % 2 else None)
        assert not pieces or "".join(pieces) == reply.text
        return reply.text

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(ask, range(THREADS))) == alone
    if isinstance(backend, ScriptedChat):
        assert len(backend.requests) == 2 * THREADS


def test_images_are_scaled_down_to_the_area_that_is_set() -> None:
    assert ReplySettings().max_pixels == MAX_PIXELS == 1_048_576
    assert scaled_down(page(9, (384, 384)), 384 * 384) == page(9, (384, 384))
    width, height = scaled_down(page(9, (3000, 1500)), 1_048_576).size
    assert 0.98 * 1_048_576 < width * height <= 1_048_576
    assert width / height == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize(
    ("size", "area", "shown"),
    [
        ((20, 4200), MAX_PIXELS, (21, 4200)),
        ((100_000, 1), MAX_PIXELS, (14_400, 72)),
        ((5000, 1), 100, (100, 1)),
    ],
)
def test_a_very_wide_image_is_framed(size: tuple[int, int], area: int, shown: tuple[int, int]) -> None:
    seen = scaled_down(page(9, size), area)
    assert seen.size == shown and shown[0] * shown[1] <= area and max(shown) <= 200 * min(shown)
    middle = (shown[0] - 1) // 2, (shown[1] - 1) // 2
    assert seen.image.getpixel(middle) == page(9, size).image.getpixel((0, 0))


def watched(text: str, size: int, thinking: bool | None = None, held: bool = True) -> str:
    """Return the part of a reply in pieces that was decoded; `held`: constrained to verdicts."""
    watch = VerdictWatch(thinking, held)
    for start in range(0, len(text), size):
        watch.add(text[start : start + size])
        if watch.settled:
            return text[: start + size][: -watch.stop() or None]
    return text


@given(
    st.integers(1, 30),
    st.sampled_from(["'", '"']),
    st.sampled_from(["", '"', "'"]),
    st.sampled_from(["<think>success: maybe</think>\n<answer>", "<answer>", "so</think>\n<answer>```json\n"]),
    st.sampled_from(["", "'note': 'success: false', ", '"a": {"success": true}, ']),
)
def test_a_true_verdict_ends_a_reply(size: int, key: str, value: str, before: str, first: str) -> None:
    text = f"{before}{{{first}{key}previous_step_success{key}: {value}True{value}"
    assert watched(f"{text}, 'x': 1}}</answer>", size) == f"{text},"
    assert watched(f"{text} }}</answer>", size) == f"{text} }}"
    assert read_verdict(f"{text},").success is True
    corrected = f"{text}, 'x': 1}}</answer> No: <answer>{{'success': False}}</answer>"
    assert watched(corrected, size, held=False) == corrected, "a model that decodes freely may continue"


UNSETTLED = {
    "thought and answer": '<think>{"success": true}?</think><answer>{"success": false}</answer>',
    "form within a thought that the prompt opened": (
        'I must answer {"previous_step_success": true, "refine_prompt": "x"}. The hat is missing.</think>'
        '<answer>{"previous_step_success": false, "refine_prompt": "x"}</answer>'
    ),
    "form": '<answer>{"previous_step_success": true or false, "refine_prompt": "..."}</answer>',
    "text": (
        '<answer>{"refine_prompt": "a sign, \'success\': true, and {\'success\': true}", "success": false}'
    ),
    "nothing after it": '<answer>{"previous_step_success": true',
    "reasoning after a false verdict": (
        '<answer>{"previous_step_success": false, "refine_prompt": "a"}</answer><think>{"success": true}, not'
    ),
}


@pytest.mark.parametrize("text", UNSETTLED.values(), ids=UNSETTLED.keys())
def test_an_undecided_reply_is_read_to_its_end(text: str) -> None:
    for size in (1, 3, 7, 1000):
        assert watched(text, size) == text


def test_thinking_opened_by_the_prompt_is_not_part_of_the_answer() -> None:
    text = (
        'Shall it be <answer>{"success": true, "x": 1}</answer>? </think><answer>{"success": true, "x": '
        "1}</answer>"
    )
    assert watched(text, 3, thinking=True) == text[: text.rindex(",") + 1]
    begins = '<answer>{"success": true, "x": 1}</answer> or not?'
    assert watched(begins, 3, thinking=True) == begins
    for reply in (Reply(text=begins, thinking=True), Reply(text=f"Hm {begins}", finish="length")):
        with pytest.raises(AnswerError):
            read_verdict(reply.whole)
    answered = Reply(text=begins.removesuffix(" or not?"), finish="length")
    assert read_verdict(answered.whole).success is True
    assert read_verdict(Reply(text=text, thinking=True).whole).success is True


def test_the_success_probability_is_that_of_the_parsed_verdict() -> None:
    text = (
        'A {"success": true} or {"success": false}?</think>\n{"note": "\'success\': true", "success": '
        'false, "refine_prompt": "x"}'
    )
    watch, asked = VerdictWatch(), 0
    for start in range(0, len(text), 2):
        if watch.add(text[start : start + 2]):
            asked += 1
            watch.measured(asked / 10)
    assert asked == 4
    assert watch.probability() == 0.4
    unread = VerdictWatch()
    assert unread.add('I cannot answer {"success": true}: the hat is missing.')
    unread.measured(0.9)
    assert unread.probability() is None


def test_tokens_that_can_begin_both_words_count_for_neither() -> None:
    class Letters:
        """Splits off a leading space, as small vocabularies do."""

        def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
            return [ord(letter) for letter in text]

    assert verdict_tokens(Letters()) == ((ord("T"), ord("t")), (ord("F"), ord("f")))
    assert probability_of_true([], [1.0]) is None
    assert probability_of_true([2.0, float("-inf")], [2.0]) == 0.5
    assert probability_of_true([1e6], [-1e6]) == 1.0
