"""Chat backends: what all of them promise, where a verdict is found in a reply, image sizes, and the scripted one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import tiny_checkpoint
from chat_server import chat_server
from hypothesis import given
from hypothesis import strategies as st
from tiny_checkpoint import PLAIN, WATCH, page, question

from interleave_thinker.backend.answers import read_verdict
from interleave_thinker.backend.chat import REGISTRY, ChatModel, open_chat
from interleave_thinker.backend.chat.decoding import VerdictWatch, probability_of_true, verdict_tokens
from interleave_thinker.backend.chat.pixels import area_limit, scaled_down
from interleave_thinker.backend.chat.scripted import ScriptedChat
from interleave_thinker.backend.errors import Cancelled, ChatError, SettingsError


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.taught_checkpoint(tmp_path_factory.getbasetemp())


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


BACKENDS = {"transformers": local, "openai": server, "scripted": scripted}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, checkpoint: Path, tmp_path: Path) -> Iterator[ChatModel]:
    opened: AbstractContextManager[ChatModel] = BACKENDS[request.param](checkpoint, tmp_path)
    with opened as model:
        yield model


def test_every_backend_is_tested() -> None:
    # The tiny world's is the local one with a checkpoint of its own.
    assert set(REGISTRY) - set(BACKENDS) <= {"tinyworld"}


def test_a_backend_replies_and_names_itself(backend: ChatModel) -> None:
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


def test_images_are_capped_by_their_number() -> None:
    few, many = question(1, 2, 3, 4), question(1, 2, 3, 4, 5)
    assert (area_limit(few), area_limit(many)) == (1_048_576, 384 * 384)
    assert scaled_down(page(9, (384, 384)), 384 * 384) == page(9, (384, 384))
    width, height = scaled_down(page(9, (3000, 1500)), 1_048_576).size
    assert 0.98 * 1_048_576 < width * height <= 1_048_576
    assert width / height == pytest.approx(2.0, rel=0.01)
    thin = scaled_down(page(9, (5000, 1)), 100)
    assert thin.size[0] * thin.size[1] <= 100


def watched(text: str, size: int) -> VerdictWatch:
    watch = VerdictWatch()
    for start in range(0, len(text), size):
        watch.add(text[start : start + size])
    return watch


@given(st.integers(1, 30), st.booleans(), st.sampled_from(["'", '"', ""]), st.sampled_from(["", '"', "'"]))
def test_the_verdict_is_found_in_pieces_of_any_size(size: int, verdict: bool, key: str, value: str) -> None:
    text = f"<think>success: maybe</think>\n<answer>{{{key}previous_step_success{key}: {value}{verdict}{value}, 'x': 1}}"
    assert watched(text, size).verdict is verdict


@pytest.mark.parametrize(
    "text",
    [
        '<think>{"previous_step_success": true} would be wrong',
        '<think>{"success": true}?</think><answer>{"success": false}</answer>',
        '<answer>{"previous_step_success": maybe, "success": true}',
        '<answer>{"previous_step_success": false, "refine_prompt": "a sign, success: true"}',
        "success: true",
    ],
)
def test_other_words_are_no_true_verdict(text: str) -> None:
    for size in (1, 3, 1000):
        assert watched(text, size).verdict is not True


def test_the_word_is_announced_once_with_its_first_letter() -> None:
    watch = VerdictWatch()
    pieces = ["{", '"success"', ":", ' "', "t", "rue", '", "b": "true"']
    assert [watch.add(piece) for piece in pieces] == [False, False, False, False, True, False, False]
    assert watch.verdict is True


def test_tokens_that_can_begin_both_words_count_for_neither() -> None:
    class Letters:
        """Splits a leading space off, as small vocabularies do."""

        def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
            return [ord(letter) for letter in text]

    assert verdict_tokens(Letters()) == ((ord("T"), ord("t")), (ord("F"), ord("f")))
    assert probability_of_true([], [1.0]) is None
    assert probability_of_true([2.0, float("-inf")], [2.0]) == 0.5
    assert probability_of_true([1e6], [-1e6]) == 1.0


def test_a_script_keeps_what_it_was_asked_and_runs_out() -> None:
    chat = ScriptedChat(["one"])
    assert chat.reply(question(1), PLAIN).text == "one"
    assert chat.requests[0].messages == tuple(question(1))
    assert chat.requests[0].settings == PLAIN
    with pytest.raises(ChatError, match="1 replies"):
        chat.reply(question(1), PLAIN)


@pytest.mark.parametrize("content", ["{}", "[1]", "nonsense", '[{"text": 5}]'])
def test_a_file_that_is_no_script_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(content)
    with pytest.raises(SettingsError, match=r"script\.json"):
        open_chat(f"scripted:{tmp_path / 'script.json'}")
    with pytest.raises(SettingsError, match=r"gone\.json"):
        open_chat(f"scripted:{tmp_path / 'gone.json'}")
