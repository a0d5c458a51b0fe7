"""The judge is asked each question once; its bridge serves each API as its clients read it."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from interleave_thinker import ChatError, Message, Picture, Reply, ReplySettings
from interleave_thinker.research.evaluation.judge_bridge import BenchmarkJudge, JudgeBridge

GREEDY = ReplySettings(max_tokens=100)
TOKEN = "bridge-token-0123456789"
RED = Picture(Image.new("RGB", (8, 8), (255, 0, 0)))
Answer = Callable[[Sequence[Message], ReplySettings], str]


class Answers:
    """A chat that gives these texts in order, or raises these errors, after `wait` seconds each."""

    identity = "answers"
    prompt_set = None

    def __init__(self, *texts: str | Exception, wait: float = 0.0) -> None:
        self.texts, self.wait, self.seeds = list(texts), wait, []

    def reply(self, messages: Sequence[Message], settings: ReplySettings, on_token=None) -> Reply:
        self.seeds.append(settings.seed)
        until = time.monotonic() + self.wait
        while time.monotonic() < until:
            time.sleep(0.01)
            on_token("")
        text = self.texts.pop(0)
        if isinstance(text, Exception):
            raise text
        return Reply(text=text)


def question(*parts: str | Picture) -> list[Message]:
    return [Message(role="user", content=parts)]


def picture(color: tuple[int, int, int]) -> Picture:
    return Picture(Image.new("RGB", (8, 8), color))


def test_each_question_is_sent_once_and_a_second_judge_reads_the_cache(tmp_path: Path) -> None:
    asked = question("Is it red?", picture((255, 0, 0)))
    chat = Answers("<think>Hm.</think>yes", "no", "drawn")
    judge = BenchmarkJudge(chat, tmp_path / "answers.sqlite")
    assert [judge.ask(asked, GREEDY) for _ in range(3)] == ["yes"] * 3
    # Other pixels, other settings and another answer to the same question are separate questions.
    assert judge.ask(question("Is it red?", picture((254, 0, 0))), GREEDY) == "no"
    assert judge.ask(asked, GREEDY, repeat=2) == "drawn"
    assert (judge.asked, judge.remembered, chat.seeds) == (3, 2, [0, 0, 2])
    judge.close()
    again = BenchmarkJudge(Answers(), tmp_path / "answers.sqlite")
    assert (again.ask(asked, GREEDY), again.ask(asked, GREEDY, repeat=2), again.asked) == ("yes", "drawn", 0)


def test_parallel_equal_questions_share_one_answer(tmp_path: Path) -> None:
    judge = BenchmarkJudge(Answers("yes", wait=0.2), tmp_path / "answers.sqlite")
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(judge.ask(question("?"), GREEDY))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, judge.asked) == (["yes"] * 8, 1)


def test_a_failed_attempt_is_repeated_once(tmp_path: Path) -> None:
    judge = BenchmarkJudge(Answers(ChatError("down"), "yes"), tmp_path / "a.sqlite")
    assert (judge.ask(question("?"), GREEDY), judge.asked) == ("yes", 2)
    down = BenchmarkJudge(Answers(*[ChatError("down")] * 3, "late"), tmp_path / "b.sqlite")
    with pytest.raises(ChatError, match="down"):
        down.ask(question("?"), GREEDY)
    assert down.ask(question("?"), GREEDY) == "late", "a fault is not kept"


def test_a_judge_that_hangs_ends_at_its_deadline(tmp_path: Path) -> None:
    judge = BenchmarkJudge(Answers("never", wait=60), tmp_path / "answers.sqlite", deadline=0.1)
    with pytest.raises(ChatError, match=r"did not finish its answer within 0\.1 s"):
        judge.ask(question("?"), GREEDY)
    assert judge.asked == 2


@pytest.mark.parametrize("text", ["", "<think>On and on", "<think>done</think>  "])
def test_reasoning_without_an_answer_is_an_error(tmp_path: Path, text: str) -> None:
    judge = BenchmarkJudge(Answers(text, text), tmp_path / "answers.sqlite")
    with pytest.raises(ChatError, match="without an answer"):
        judge.ask(question("?"), GREEDY)


class Echo:
    """A chat that answers with a function and records its questions."""

    identity = "echo"
    prompt_set = None

    def __init__(self, answer: Answer) -> None:
        self.answer, self.asked = answer, []

    def reply(self, messages: Sequence[Message], settings: ReplySettings, on_token=None) -> Reply:
        self.asked.append((messages, settings))
        return Reply(text=self.answer(messages, settings))


@contextmanager
def bridge(folder: Path, answer: Answer = lambda messages, settings: "yes", **options: Any) -> Iterator[Any]:
    chat = Echo(answer)
    one = JudgeBridge(BenchmarkJudge(chat, folder / "answers.sqlite"), TOKEN, **options)
    with one.serving() as address:
        yield chat, one, address


def post(address: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, str]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = headers or {"authorization": f"Bearer {TOKEN}"}
    request = urllib.request.Request(address, data, {"content-type": "application/json", **given})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def chat_body(text: str = "?", **changed: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **changed}


def test_openais_client(tmp_path: Path) -> None:
    openai = pytest.importorskip("openai", reason="needs the client library openai")
    with bridge(tmp_path) as (chat, _, address):
        client = openai.OpenAI(api_key=TOKEN, base_url=f"{address}/v1", max_retries=0)
        content = [
            {"type": "text", "text": "Is it red?"},
            {"type": "image_url", "image_url": {"url": RED.data_url(), "detail": "high"}},
        ]
        messages = [{"role": "system", "content": "Judge."}, {"role": "user", "content": content}]
        whole = client.chat.completions.create(model="gpt-4o", messages=messages, temperature=0.5)
        assert whole.choices[0].message.content == "yes"
        assert (whole.model, whole.choices[0].finish_reason) == ("gpt-4o", "stop")
        asked, settings = chat.asked[0]
        assert [one.role for one in asked] == ["system", "user"]
        assert asked[1].content == ("Is it red?", RED)
        assert settings.temperature == 0.5
        with pytest.raises(openai.AuthenticationError, match="not that of the judge bridge"):
            openai.OpenAI(api_key="wrong", base_url=f"{address}/v1").chat.completions.create(
                model="m", messages=messages
            )


def test_googles_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    genai = pytest.importorskip("google.genai", reason="needs the client library google-genai")
    with bridge(tmp_path) as (chat, _, address):
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", address)
        client = genai.Client(api_key=TOKEN)
        found = client.models.generate_content(model="gemini-2.5-pro", contents=["Is it red?", RED.image])
        assert found.text == "yes"
        config = {"system_instruction": "Judge.", "temperature": 0.5, "max_output_tokens": 9}
        stream = client.models.generate_content_stream(model="g", contents="Again?", config=config)
        assert "".join(chunk.text or "" for chunk in stream) == "yes"
        (first, _), (second, settings) = chat.asked
        assert first[0].content[0] == "Is it red?" and first[0].content[1].size == RED.size
        assert [one.role for one in second] == ["system", "user"]
        assert (settings.temperature, settings.max_tokens) == (0.5, 9)


def test_the_native_streaming_form(tmp_path: Path) -> None:
    data = base64.urlsafe_b64encode(RED.png()).decode()
    parts = [{"text": "Red?"}, {"inline_data": {"mime_type": "image/png", "data": data}}]
    body = {
        "model": "m",
        "stream": True,
        "contents": [{"role": "user", "parts": parts}],
        "generationConfig": {"temperature": 0.1},
    }
    with bridge(tmp_path) as (chat, _, address):
        status, text = post(f"{address}/native", body)
    lines = [line for line in text.split("\n") if line]
    assert status == 200 and lines[-1] == "data: [DONE]"
    assert json.loads(lines[0].removeprefix("data: "))["candidates"][0]["content"]["parts"] == [
        {"text": "yes"}
    ]
    assert chat.asked[0][0][0].content == ("Red?", RED)


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/chat/completions", b"", 400, "JSON"),
        ("/v1/chat/completions", {"messages": [{"role": "tool", "content": "x"}]}, 400, "role"),
        ("/v1/chat/completions", chat_body(n=4), 400, "one answer"),
        ("/v1/chat/completions", chat_body(stream=True), 400, "no stream"),
        ("/v1beta/models/m:generateContent", {"contents": []}, 400, "no contents"),
        ("/v1beta/models/m:generateContent", {"contents": [], "cachedContent": "c"}, 400, "cached contents"),
        ("/v1beta/models/m:countTokens", {"contents": []}, 404, "does not exist"),
    ],
)
def test_an_invalid_question(tmp_path: Path, path: str, body: Any, status: int, words: str) -> None:
    with bridge(tmp_path) as (chat, _, address):
        found, text = post(address + path, body)
        message = json.loads(text)["error"]["message"]
        assert (found, words in message, "\n" in message, chat.asked) == (status, True, False, [])


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/secret.png", "file:///etc/passwd", "data:image/png;base64,AAAA", "data:text/x,"]
)
def test_no_image_is_fetched_for_a_client(tmp_path: Path, url: str) -> None:
    content = [{"type": "image_url", "image_url": {"url": url}}]
    with bridge(tmp_path) as (_, _, address):
        status, text = post(
            f"{address}/v1/chat/completions", {"messages": [{"role": "user", "content": content}]}
        )
    assert status == 400 and "image" in text


def test_on_shutdown_running_answers_are_sent_and_waiting_questions_rejected(tmp_path: Path) -> None:
    begun, let_go = threading.Event(), threading.Event()

    def slow(messages: Sequence[Message], settings: ReplySettings) -> str:
        begun.set()
        assert let_go.wait(20)
        return "paid for"

    replies: dict[str, tuple[int, str]] = {}

    def ask(address: str, text: str) -> None:
        replies[text] = post(f"{address}/v1/chat/completions", chat_body(text))

    with bridge(tmp_path, slow, parallel=1) as (_, one, address):
        first = threading.Thread(target=ask, args=(address, "first"))
        first.start()
        assert begun.wait(20)
        second = threading.Thread(target=ask, args=(address, "second"))
        second.start()
        while one.client._under_way < 2:
            time.sleep(0.01)
        threading.Timer(0.5, let_go.set).start()
    first.join(20)
    second.join(20)
    assert replies["first"][0] == 200 and "paid for" in replies["first"][1]
    assert replies["second"][0] == 503 and "shutting down" in replies["second"][1]


def test_a_repeated_question_is_sampled_again_and_then_given_up(tmp_path: Path) -> None:
    with bridge(tmp_path, lambda messages, settings: f"nonsense {settings.seed}") as (chat, one, address):
        replies = [post(f"{address}/v1/chat/completions", chat_body()) for _ in range(9)]
        answers = [
            json.loads(text)["choices"][0]["message"]["content"] for status, text in replies if status == 200
        ]
        assert answers[:3] == ["nonsense 0", "nonsense 0", "nonsense 1"]
        assert len(set(answers)) == 7 and replies[8][0] == 503
        assert "could not read" in str(one.client.trouble) and "nonsense 0" in str(one.client.trouble)
        before = len(chat.asked)
    with bridge(tmp_path) as (chat, _, address):
        again = [post(f"{address}/v1/chat/completions", chat_body()) for _ in range(8)]
        found = [json.loads(text)["choices"][0]["message"]["content"] for _, text in again]
        assert (found, chat.asked, before) == (answers, [], 7), "the same answers, without a call"


def test_a_failing_judge_is_given_up_with_its_error(tmp_path: Path) -> None:
    def down(messages: Sequence[Message], settings: ReplySettings) -> str:
        raise ChatError("http://judge cannot be reached.", "Is it running?")

    with bridge(tmp_path, down) as (chat, one, address):
        replies = [post(f"{address}/v1/chat/completions", chat_body(str(number))) for number in range(5)]
        assert {status for status, _ in replies} == {503}
        assert str(one.client.trouble).startswith("The judge failed: http://judge cannot be reached.")
        assert len(chat.asked) == 6, "two attempts per question, three questions"


def test_an_unexpected_failure_is_answered_and_reported(tmp_path: Path) -> None:
    """Otherwise clients see a closed connection again and again."""

    def fail(messages: Sequence[Message], settings: ReplySettings) -> str:
        raise ZeroDivisionError("by zero")

    with bridge(tmp_path, fail) as (_, one, address):
        path = f"{address}/v1/chat/completions"
        said = [post(path, chat_body(str(number))) for number in range(3)]
        assert {status for status, _ in said} == {503} and "by zero" in said[0][1]
        one.client.begin = one.client.answer = lambda *_: 1 / 0
        status, text = post(path, chat_body("x"))
        assert status == 500 and "The judge bridge failed" in text


def test_wrong_keys_and_lengths_are_rejected(tmp_path: Path) -> None:
    with bridge(tmp_path) as (chat, _, address):
        path = f"{address}/v1/chat/completions"
        key = {"authorization": f"Bearer {TOKEN}"}
        assert post(path, chat_body(), {"authorization": "Bearer wrong"})[0] == 401
        assert post(path, chat_body(), {**key, "content-length": "9" * 5000})[0] == 413
        assert chat.asked == []
        assert post(path, chat_body())[0] == 200
