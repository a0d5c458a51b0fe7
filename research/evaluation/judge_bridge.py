"""A judge, and a server on this machine with the APIs that evaluators use for hosted judges.

The judge is a chat backend that answers each question once, with a file of cached answers, because judging a
benchmark takes about ten thousand questions. The key of an answer covers everything that determines it: the
judge, the settings, all text and pixels, and its number among answers to the same question (`repeat`). An
attempt ends at a deadline even if the backend keeps generating. If its answer is unusable, there is a second
attempt; if that fails too, the error is raised and not cached.

The server is Python's own with one thread per connection, so scoring needs no further package. It listens on
this machine only, for programs that send its token. Requests are not logged; an error is one line in the
format of the client's API. Images must be inline, because a URL would let a client make this machine fetch
any address.

An evaluator that cannot read an answer asks again, and the same answer would not help it. From the third time
on it gets a newly sampled answer. The first two answers are equal, so that two items with the same question
are judged alike. Evaluators keep asking for hours if a judge is down or answers nonsense. After a few such
questions the bridge therefore gives up with one explanation and rejects the rest. On shutdown it waits for
running answers, because they are paid for and cached, and rejects questions that still wait.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs

from pydantic import AliasChoices, ConfigDict, Field, ValidationError

from ...backend.core.errors import (
    ChatError,
    InterleaveError,
    PictureError,
    ServerError,
    SettingsError,
    boundary,
    first_fault,
)
from ...backend.core.files.bounded_reader import parse_json
from ...backend.core.pictures import Picture
from ...backend.core.remote.call import check_seconds
from ...backend.core.seams.chat_model import MAX_PIXELS_BOUND, ChatModel, Message, ReplySettings
from ...backend.core.shown_text import one_line
from ...backend.core.types.values import ValidTexts
from ...backend.models.chat import CHAT_BACKENDS, open_chat
from ...training.content_cache import ContentCache, key_of

DEADLINE = 180.0
MAX_ATTEMPTS = 2
THOUGHT = re.compile(r"^\s*(?:<think>)?.*?</think>\s*", re.DOTALL)


class BenchmarkJudge:
    """Answers questions about texts and images. It can be used by several threads.

    Attributes:
        deadline: Timeout of an attempt, in seconds.
        asked: Number of questions sent to the model, including failed attempts.
        remembered: Number of cached answers that were used.
    """

    def __init__(self, chat: ChatModel, answers: Path, deadline: float = DEADLINE) -> None:
        """Open the cache of answers.

        Args:
            chat: The model.
            answers: File of the cache.
            deadline: Timeout of an attempt, in seconds.

        Raises:
            SettingsError: If the file cannot be used.
        """
        check_seconds(deadline=deadline)
        self._chat, self.deadline = chat, deadline
        self._answers = ContentCache(answers, "The judge's answers")
        self._under_way: dict[str, Future[str]] = {}
        self._lock = threading.Lock()
        self.asked = self.remembered = 0

    @property
    def identity(self) -> str:
        """Name of the judge that is stored with figures."""
        return self._chat.identity

    def ask(self, messages: Sequence[Message], settings: ReplySettings, repeat: int = 0) -> str:
        """Return the answer, without the model's reasoning.

        Args:
            messages: The question.
            settings: Sampling settings.
            repeat: 0 for the first answer; each higher number samples another answer, with that seed.

        Raises:
            ChatError: If MAX_ATTEMPTS attempts gave no usable answer.
            ServerError: If the server does not respond.
            SettingsError: If the answer cannot be stored.
        """
        settings = settings.seeded(repeat)
        key = self.key(messages, settings)
        with self._lock:
            known = self._answers.text(key)
            if known is not None:
                self.remembered += 1
                return known
            waited_for = self._under_way.get(key)
            mine: Future[str] = Future()
            if waited_for is None:
                self._under_way[key] = mine
        if waited_for is not None:
            return waited_for.result()
        try:
            answer = self._answer(messages, settings)
            self._answers.keep_text(key, answer)
            mine.set_result(answer)
            return answer
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._under_way[key]

    def close(self) -> None:
        """Close the file of answers."""
        self._answers.close()

    def key(self, messages: Sequence[Message], settings: ReplySettings) -> str:
        """Return the cache key of an answer, which covers everything that determines it."""
        parts: list[str | None] = [self.identity, settings.key()]
        for message in messages:
            parts.append(None)
            parts.append(message.role)
            for part in message.content:
                parts += ("picture", part.digest) if isinstance(part, Picture) else ("text", part)
        return key_of(*parts)

    def _answer(self, messages: Sequence[Message], settings: ReplySettings) -> str:
        remaining = MAX_ATTEMPTS
        while True:
            remaining -= 1
            with self._lock:
                self.asked += 1
            try:
                return self._attempt(messages, settings)
            except ServerError:
                raise  # its client has already retried
            except ChatError:
                if not remaining:
                    raise

    def _attempt(self, messages: Sequence[Message], settings: ReplySettings) -> str:
        until = time.monotonic() + self.deadline

        def look_up(_: str) -> None:
            if time.monotonic() > until:
                raise ChatError(
                    f"The judge did not finish its answer within {self.deadline:g} s.",
                    "Increase the deadline, ask fewer questions in parallel, or use a faster judge.",
                )

        with boundary(ChatError, "The judge"):
            reply = self._chat.reply(messages, settings, look_up)
        answer = THOUGHT.sub("", reply.text, count=1).strip()
        thinks = answer.startswith("<think>") or (reply.thinking and "</think>" not in reply.text)
        if thinks or not answer:
            raise ChatError(
                f"The judge wrote {reply.tokens} tokens without "
                f"{'an answer after its reasoning' if thinks else 'an answer'}.",
                "Start its server with reasoning disabled, or allow more tokens.",
            )
        return answer


def open_judge(spec: str, answers: Path, deadline: float = DEADLINE, **options: object) -> BenchmarkJudge:
    """Open a judge.

    Args:
        spec: `openai:MODEL@URL`, `transformers:FOLDER`, ...
        answers: File of the cached answers.
        deadline: Timeout of one attempt to answer, in seconds.
        options: Options of the backend; `None` if not set.

    Raises:
        SettingsError: If the name or an option is invalid.
        ChatError: If the backend cannot be opened.
    """
    if "deadline" in CHAT_BACKENDS.option_names(spec):
        options = {"deadline": deadline, **options}
    return BenchmarkJudge(open_chat(spec, **options), answers, deadline)


ALIKE = 2
MAX_ASKED = 8
MAX_FAILED = 3
MAX_TOKENS = 65536
MAX_BODY = 256 * 1024 * 1024
SOCKET_SECONDS = 60.0
SENDING_SECONDS = 5.0
PARALLEL = 16
URL_SAFE = str.maketrans("-_", "+/")
GEMINI = re.compile(r"/v1(?:alpha|beta\d*)?/models/([^/:]{1,200}):(generateContent|streamGenerateContent)")
NATIVE = "/native"
OPENAI = "/chat/completions"


class JudgeUnavailable(InterleaveError):
    """The judge cannot be used."""


class BadRequest(InterleaveError):
    """A request that is rejected with an HTTP status: it does not follow the API, or is not supported."""

    def __init__(self, message: str, hint: str = "", status: int = 400) -> None:
        super().__init__(message, hint)
        self.status = status


@dataclass(frozen=True)
class BridgeRequest:
    """A question and how to answer it.

    Attributes:
        messages: Messages in order.
        settings: Sampling settings.
        model: Name that the client uses for the judge.
        streamed: Whether to answer as an event stream.
    """

    messages: tuple[Message, ...]
    settings: ReplySettings
    model: str
    streamed: bool = False


def _settings(
    temperature: float | None, top_p: float | None, max_tokens: int | None, seed: int | None
) -> ReplySettings:
    """Return sampling settings from the values of a request; `None` selects the default."""
    return ReplySettings(
        temperature=min(2.0, max(0.0, temperature or 0.0)),
        top_p=top_p if top_p and 0 < top_p <= 1 else 1.0,
        max_tokens=min(MAX_TOKENS, max_tokens) if max_tokens and max_tokens > 0 else None,
        seed=abs(seed or 0) % 2**53,
        max_pixels=MAX_PIXELS_BOUND,
    )


def _image(text: str) -> Picture:
    """Decode an image in base64 (standard or URL-safe alphabet, with or without padding).

    Raises:
        BadRequest: If it cannot be decoded.
    """
    text = text.translate(URL_SAFE).strip()
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        return Picture.from_bytes(data, "An image of the question")
    except (binascii.Error, ValueError, PictureError) as error:
        raise BadRequest(f"Cannot read an image of the question: {error}.") from error


def _either(snake: str, camel: str) -> Any:
    return Field(default=None, validation_alias=AliasChoices(camel, snake))


class _Open(ValidTexts):
    model_config = ConfigDict(extra="ignore")


class _Inline(_Open):
    data: str


class _GeminiPart(_Open):
    text: str | None = None
    inline: _Inline | None = _either("inline_data", "inlineData")


class _GeminiContent(_Open):
    role: str | None = None
    parts: list[_GeminiPart] = Field(max_length=10_000)


class _GeminiSettings(_Open):
    temperature: float | None = Field(default=None, strict=True)
    seed: int | None = Field(default=None, strict=True)
    top_p: float | None = _either("top_p", "topP")
    max_tokens: int | None = _either("max_output_tokens", "maxOutputTokens")


class GeminiBody(_Open):
    """Body of POST .../models/MODEL:generateContent, as far as a judge uses it.

    `stream` is SpecV's extension.
    """

    contents: list[_GeminiContent] | _GeminiContent
    system: _GeminiContent | None = _either("system_instruction", "systemInstruction")
    settings: _GeminiSettings | None = _either("generation_config", "generationConfig")
    cached: str | None = _either("cached_content", "cachedContent")
    model: str | None = None
    stream: bool | None = False

    def question(self, model: str = "") -> BridgeRequest:
        """Return the question in the body.

        Raises:
            BadRequest: If the body cannot be answered.
        """
        if self.cached:
            raise BadRequest(
                "The judge bridge does not support cached contents.",
                "Send the contents with the request (--no_cache).",
            )
        contents = self.contents if isinstance(self.contents, list) else [self.contents]
        messages = [
            Message(role="assistant" if one.role == "model" else "user", content=_gemini_parts(one))
            for one in contents
        ]
        if not messages:
            raise BadRequest("The request has no contents. Send at least one message.")
        if self.system is not None:
            messages.insert(0, Message(role="system", content=_gemini_parts(self.system)))
        given = self.settings or _GeminiSettings()
        settings = _settings(given.temperature, given.top_p, given.max_tokens, given.seed)
        return BridgeRequest(tuple(messages), settings, model or self.model or "judge", bool(self.stream))


def _gemini_parts(content: _GeminiContent) -> tuple[str | Picture, ...]:
    found: list[str | Picture] = []
    for part in content.parts:
        if part.text is not None:
            found.append(part.text)
        elif part.inline is not None:
            found.append(_image(part.inline.data))
        else:
            raise BadRequest("A part is neither text nor inline image data. Send images as inline_data.")
    return tuple(found)


class _Address(_Open):
    url: str


class _OpenAIPart(_Open):
    type: str
    text: str | None = None
    image_url: _Address | None = None


class _OpenAIMessage(_Open):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_OpenAIPart]


class OpenAIBody(_Open):
    """Body of POST .../chat/completions, as far as a judge uses it."""

    model: str = "judge"
    messages: list[_OpenAIMessage] = Field(min_length=1, max_length=1000)
    stream: bool | None = False
    temperature: float | None = Field(default=None, strict=True)
    top_p: float | None = Field(default=None, strict=True)
    max_tokens: int | None = Field(default=None, strict=True)
    max_completion_tokens: int | None = Field(default=None, strict=True)
    seed: int | None = Field(default=None, strict=True)
    n: int | None = Field(default=1, strict=True)

    def question(self) -> BridgeRequest:
        """Return the question in the body.

        Raises:
            BadRequest: If the body cannot be answered.
        """
        if self.n not in (None, 1) or self.stream:
            raise BadRequest("A judge gives one answer at once. Send n=1 and no stream.")
        settings = _settings(
            self.temperature, self.top_p, self.max_completion_tokens or self.max_tokens, self.seed
        )
        messages = tuple(_openai_message(one) for one in self.messages)
        return BridgeRequest(messages, settings, self.model)


def _openai_message(one: _OpenAIMessage) -> Message:
    parts = [one.content] if isinstance(one.content, str) else [_openai_part(part) for part in one.content]
    return Message(role="system" if one.role == "developer" else one.role, content=tuple(parts))


def _openai_part(part: _OpenAIPart) -> str | Picture:
    if part.text is not None:
        return part.text
    if part.image_url is None:
        raise BadRequest(f"A part has type {part.type[:40]!r}; only text and image_url are supported.")
    head, comma, data = part.image_url.url.partition(";base64,")
    if not head.startswith("data:image/") or not comma:
        raise BadRequest("An image is not inline. Send it as data:image/...;base64,...")
    return _image(data)


def _gemini_answer(question: BridgeRequest, text: str) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": text}]}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0},
        "modelVersion": question.model,
    }


def _openai_answer(question: BridgeRequest, text: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-judge",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": question.model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def _error(is_openai: bool, status: int, message: str) -> dict[str, Any]:
    """Return an error in the format of the API."""
    if is_openai:
        return {"error": {"message": message, "type": "judge_error", "param": None, "code": status}}
    name = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND"}.get(status, "UNAVAILABLE")
    return {"error": {"code": status, "message": message, "status": name}}


class JudgeClient:
    """Sends questions to a judge, `parallel` at a time, and counts repetitions since the last `begin`."""

    def __init__(self, judge: BenchmarkJudge, parallel: int) -> None:
        self._judge = judge
        self._slots = threading.BoundedSemaphore(parallel)
        self._lock = threading.Condition()
        self._asked: Counter[str] = Counter()
        self._failed = 0
        self._under_way = 0
        self._last = time.monotonic()
        self._is_ending = False
        self.trouble: JudgeUnavailable | None = None

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last answer; 0.0 while a question is being answered."""
        with self._lock:
            return 0.0 if self._under_way else time.monotonic() - self._last

    def begin(self) -> None:
        """Reset the counts before an evaluator starts."""
        with self._lock:
            self._asked.clear()
            self._failed = 0
            self._last = time.monotonic()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Mark a question as running until its answer is sent; `finish` waits for it."""
        with self._lock:
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                self._last = time.monotonic()
                self._lock.notify_all()

    def finish(self, seconds: float) -> int:
        """Reject new questions, wait at most `seconds` for running ones, and return how many still run."""
        with self._lock:
            self._is_ending = True
            self._lock.wait_for(lambda: not self._under_way, seconds)
            return self._under_way

    def answer(self, question: BridgeRequest) -> str:
        """Ask the judge.

        Raises:
            ChatError: If the judge fails.
            JudgeUnavailable: If the bridge has given up, or is ending.
        """
        with self._slots:
            return self._answer(question)

    def _answer(self, question: BridgeRequest) -> str:
        key = self._judge.key(question.messages, question.settings)
        with self._lock:
            if self._is_ending:
                raise JudgeUnavailable("The judge bridge is shutting down.", "Its answers are cached.")
            if self.trouble is not None:
                # One object raised for every question would keep all of them in memory by its traceback.
                raise JudgeUnavailable(self.trouble.message, self.trouble.hint)
            times = self._asked[key]
        if times >= MAX_ASKED:
            known = self._judge.ask(question.messages, question.settings)
            raise self._give_up(
                f"The evaluator asked the same question {MAX_ASKED} times because it could not read the "
                f"judge's answers, such as {known[:120]!r}.",
                "Use another judge: this one does not answer in the requested format.",
            )
        try:
            with boundary(ChatError, "The judge"):
                found = self._judge.ask(question.messages, question.settings, max(0, times + 1 - ALIKE))
        except ChatError as error:
            with self._lock:
                self._failed += 1
            if self._failed >= MAX_FAILED:
                raise self._give_up(f"The judge failed: {error.message}", error.hint) from error
            raise
        except SettingsError as error:
            raise self._give_up(error.message, error.hint) from error
        with self._lock:
            self._failed = 0
            # Count only now: an evaluator that repeats a question while it is being answered has not read an
            # answer yet.
            self._asked[key] += 1
        return found

    def _give_up(self, message: str, hint: str) -> JudgeUnavailable:
        with self._lock:
            self.trouble = self.trouble or JudgeUnavailable(message, hint)
            return JudgeUnavailable(self.trouble.message, self.trouble.hint)


class JudgeBridge:
    """A judge served at `http://127.0.0.1:PORT` while `serving` is active.

    Args:
        judge: The judge.
        token: Key that clients must send.
        parallel: Number of questions at a time.
    """

    def __init__(self, judge: BenchmarkJudge, token: str, parallel: int = PARALLEL) -> None:
        self.judge, self.client = judge, JudgeClient(judge, parallel)
        self.token = token

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve in background threads.

        Yields:
            The URL.

        Raises:
            SettingsError: If no port can be used.
        """
        try:
            server = _Server(("127.0.0.1", 0), partial(_Handler, self))
        except OSError as error:
            raise SettingsError(f"The judge bridge cannot listen on this machine: {error}.") from error
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            try:
                server.shutdown()
                # A running attempt ends at the judge's deadline.
                self.client.finish(self.judge.deadline + SENDING_SECONDS)
            finally:
                server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # An evaluator opens a connection for each of its workers at the same moment.
    request_queue_size = 1024

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "judge-bridge", ""
    timeout = SOCKET_SECONDS

    def __init__(self, bridge: JudgeBridge, *values: Any) -> None:
        self._bridge = bridge
        super().__init__(*values)

    def log_message(self, format: str, *values: Any) -> None:
        """Do nothing: requests are not logged."""

    def do_POST(self) -> None:
        """Answer a question in the API of its path."""
        path = self.path.partition("?")[0]
        is_openai = path.endswith(OPENAI)
        try:
            body = self._body()
            with self._bridge.client.under_way():
                self._answer(path, parse_json(body, BadRequest, "The JSON body"), is_openai)
        except (BadRequest, ValidationError) as error:
            # The rest of the body would be read as the next request.
            self.close_connection = True
            status = error.status if isinstance(error, BadRequest) else 400
            self._send(_error(is_openai, status, _one_line(error)), status)
        except (ChatError, JudgeUnavailable) as error:
            self._send(_error(is_openai, 503, str(error)), 503)
        except OSError:
            raise  # the client hung up
        except Exception as error:  # noqa: BLE001 - a boundary: silence would look like a broken network
            message = one_line(f"The judge bridge failed ({type(error).__name__}: {error}).")
            self._send(_error(is_openai, 500, message), 500)

    def _answer(self, path: str, body: Any, is_openai: bool) -> None:
        client = self._bridge.client
        if is_openai:
            question = OpenAIBody.model_validate(body).question()
            self._send(_openai_answer(question, client.answer(question)))
            return
        gemini = GEMINI.fullmatch(path)
        if gemini is None and path != NATIVE:
            raise BadRequest(
                f"The path {path[:100]} does not exist.",
                f"Use .../v1{OPENAI}, /v1beta/models/MODEL:generateContent or {NATIVE}.",
                404,
            )
        question = GeminiBody.model_validate(body).question(gemini[1] if gemini else "")
        answer = _gemini_answer(question, client.answer(question))
        if gemini[2] == "streamGenerateContent" if gemini else question.streamed:
            # In SpecV's format the stream ends with a mark.
            end = "" if gemini else "data: [DONE]\n\n"
            self._send_bytes(
                f"data: {json.dumps(answer)}\n\n{end}".encode(), "text/event-stream; charset=utf-8"
            )
        else:
            self._send(answer)

    def _body(self) -> bytes:
        """Return the body of a request with the token."""
        sent = [self.headers.get("authorization", "").partition(" ")[2].strip()]
        sent += [self.headers.get("x-goog-api-key", "")]
        sent += parse_qs(self.path.partition("?")[2]).get("key", [])
        token = self._bridge.token.encode()
        if not any(hmac.compare_digest(one.encode(), token) for one in sent):
            raise BadRequest("The key is not that of the judge bridge.", status=401)
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or len(length) > 10 or int(length) > MAX_BODY:
            raise BadRequest(f"Send a content-length of at most {MAX_BODY} bytes.", status=413)
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise BadRequest("The body is shorter than its content-length.")
        return body

    def _send(self, content: dict[str, Any], status: int = 200) -> None:
        self._send_bytes(json.dumps(content).encode(), "application/json", status)

    def _send_bytes(self, data: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(data)


def _one_line(error: BadRequest | ValidationError) -> str:
    if isinstance(error, BadRequest):
        return str(error)
    fault = first_fault(error)
    return f"{fault.place or 'body'}: {fault.reason}"
