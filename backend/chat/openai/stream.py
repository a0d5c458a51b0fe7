"""Reads what a chat server sends: server-sent events, or one JSON object from servers that do not stream.

Decision: everything from the server is checked by pydantic and bounded in size; an unknown field is ignored,
a field of the wrong kind is a ChatError that quotes it. Token counts only accompany the reply, so a wrong one
never loses it. Servers cut characters in two between events; their halves are joined before anything else
reads the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, PlainValidator, ValidationError
from typing_extensions import TypedDict

from ...errors import ChatError
from ...files.bounded_reader import parse_json
from ...remote.call import OnText
from ...remote.key_mask import GrowingMask, KeyMask
from ...remote.server import RemoteServer
from ...shown_text import JoinedHalves
from ...values import ValidTexts
from ..protocol import Reply
from ..verdict_watch import VerdictWatch, probability_of_true

if TYPE_CHECKING:
    import httpx

MAX_REPLY_BYTES = 32 * 1024 * 1024
MAX_LINE_BYTES = 8 * 1024 * 1024
MAX_TEXT_CHARACTERS = 1_000_000
MAX_EVENT_VALUES = 1_000_000
"""Values in one JSON text: those of an answer of 4,096 tokens with twenty alternatives each, spelled out byte
by byte."""
MAX_CHOICES = 16
MAX_TOKENS = 100_000
MAX_ALTERNATIVES = 100


def _as_written(value: Any) -> str:
    """Return a text that may contain a lone surrogate, which pydantic's `str` rejects."""
    if not isinstance(value, str):
        raise ValueError(f"a text is expected, but there is {type(value).__name__}")
    return value


def _joined_parts(value: Any) -> str | None:
    """The content of a message: a text, or its text parts in a list, which some servers send."""
    if not isinstance(value, list):
        return None if value is None else _as_written(value)
    texts = [one.get("text") for one in value if isinstance(one, dict) and one.get("type") in TEXT_PARTS]
    if len(texts) < len(value):
        raise ValueError("a part of the content is not a text")
    return "".join(map(_as_written, texts))


def _token_count(value: Any) -> int | None:
    """Return a token count, or None if the value is not a possible count."""
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value % 1 == 0
    return int(value) if whole and 0 <= value <= MAX_TEXT_CHARACTERS else None


TEXT_PARTS = ("text", "output_text")
_Written = Annotated[str, PlainValidator(_as_written)]
_Content = Annotated[str | None, PlainValidator(_joined_parts)]
_Count = Annotated[int | None, PlainValidator(_token_count)]


class _TopToken(TypedDict):
    """A dictionary: there may be hundreds of thousands in an answer, and a model takes three times the
    memory."""

    token: _Written
    logprob: float


class _Token(BaseModel):
    token: _Written
    logprob: float = 0.0
    top_logprobs: list[_TopToken] = Field(default_factory=list, max_length=MAX_ALTERNATIVES)


class _Logprobs(BaseModel):
    content: list[_Token] | None = Field(default=None, max_length=MAX_TOKENS)


class _Text(BaseModel):
    content: _Content = None
    reasoning_content: _Content = None
    reasoning: _Content = None


class _Choice(ValidTexts):
    delta: _Text | None = None
    message: _Text | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Usage(BaseModel):
    completion_tokens: _Count = None
    prompt_tokens: _Count = None


def _object_or_none(value: Any) -> Any:
    return value if isinstance(value, dict) else None


class _Event(BaseModel):
    choices: list[_Choice] = Field(default_factory=list, max_length=MAX_CHOICES)
    usage: Annotated[_Usage | None, BeforeValidator(_object_or_none)] = None
    error: object = None


Alternatives = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Chunk:
    """A piece of a reply; `reasoning`: what the server took out from between think tags; `alternatives` has
    each token with its most probable alternatives and their log-probabilities."""

    text: str
    reasoning: str = ""
    tokens: int = 0
    total_tokens: int = 0
    question_tokens: int | None = None
    finish: str | None = None
    alternatives: tuple[tuple[str, Alternatives], ...] = ()


def read_chunks(server: RemoteServer, response: httpx.Response) -> Iterator[Chunk]:
    """The pieces of a reply as they arrive, of whole characters; raises ChatError for anything else than a
    reply, or too large a one."""
    whole = _WholeCharacters()
    for chunk in _raw_chunks(server, response):
        yield whole.add(chunk)
    yield whole.end()


def _raw_chunks(server: RemoteServer, response: httpx.Response) -> Iterator[Chunk]:
    if "text/event-stream" not in response.headers.get("content-type", ""):
        yield _chunk(server.whole(response, MAX_REPLY_BYTES).decode("utf-8", "replace"), server)
        return
    length, ended = 0, False
    for line in server.lines(response, MAX_REPLY_BYTES, MAX_LINE_BYTES):
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            return
        chunk = _chunk(data, server, streamed=True)
        length += len(chunk.text) + len(chunk.reasoning)
        if length > MAX_TEXT_CHARACTERS:
            raise ChatError(f"{server.url} sent more than {MAX_TEXT_CHARACTERS} characters.")
        ended = ended or chunk.finish is not None
        yield chunk
    if not ended:
        raise ChatError(f"{server.url} broke its answer off after {length} characters.")


class _WholeCharacters:
    """Joins the characters that are cut between the pieces of a reply, in its text, its reasoning and its
    tokens."""

    def __init__(self) -> None:
        self._text, self._reasoning, self._tokens = JoinedHalves(), JoinedHalves(), JoinedHalves()

    def add(self, chunk: Chunk) -> Chunk:
        reasoning = self._reasoning.add(chunk.reasoning)
        if chunk.text:
            # The reply begins, so nothing of the reasoning comes any more.
            reasoning += self._reasoning.end()
        return replace(
            chunk,
            text=self._text.add(chunk.text),
            reasoning=reasoning,
            alternatives=tuple((self._tokens.add(token), others) for token, others in chunk.alternatives),
        )

    def end(self) -> Chunk:
        """What waited for its second half."""
        return Chunk(text=self._text.end(), reasoning=self._reasoning.end())


def probability_in(piece: str, alternatives: Alternatives) -> float | None:
    """P(True) where `piece` begins the verdict's word; None unless both words are among the alternatives."""
    sides: dict[str, list[float]] = {"true": [], "false": []}
    for token, logprob in alternatives:
        word = token.strip(" \"'\n\t").lower()
        for name, side in sides.items():
            if word and name.startswith(word):
                side.append(logprob)
    return probability_of_true(sides["true"], sides["false"])


class StreamedReply:
    """A reply put together from chunks, with the key masked and P(True) measured if the verdict is watched.

    It is read to its end: only there is it known that the model does not correct its answer.
    """

    def __init__(self, watch_verdict: bool, on_token: OnText, mask: KeyMask) -> None:
        self._parts: list[str] = []
        self._tokens = 0
        self._question_tokens: int | None = None
        self._in_reasoning = False
        self._finish = "end"
        self._watch = VerdictWatch() if watch_verdict else None
        self._on_token = on_token
        self._mask = GrowingMask(mask)

    def add(self, chunk: Chunk) -> None:
        """Take in a chunk."""
        reasoning = self._reasoning_in(chunk)
        self._watch_for_verdict(reasoning, chunk)
        self._take(self._mask.add(reasoning + chunk.text))
        self._tokens = chunk.total_tokens or self._tokens + chunk.tokens
        if chunk.question_tokens is not None:
            self._question_tokens = chunk.question_tokens
        if chunk.finish == "length":
            self._finish = "length"

    def _reasoning_in(self, chunk: Chunk) -> str:
        """Reasoning that a server separated from the reply, with its tags again, as the model wrote it."""
        written = chunk.reasoning
        if written and not self._in_reasoning:
            written, self._in_reasoning = f"<think>{written}", True
        if chunk.text and self._in_reasoning:
            written, self._in_reasoning = f"{written}</think>", False
        return written

    def _watch_for_verdict(self, reasoning: str, chunk: Chunk) -> None:
        if self._watch is None:
            return
        # Log-probabilities tell the tokens apart; without them the text alone still shows the verdict.
        pieces = chunk.alternatives
        if "".join(piece for piece, _ in pieces) != chunk.text:
            pieces = ((chunk.text, ()),)
        for piece, alternatives in ((reasoning, ()), *pieces):
            if self._watch.add(piece):
                self._watch.measured(probability_in(piece, alternatives))

    def reply(self) -> Reply:
        """The reply so far."""
        self._take(self._mask.end())
        return Reply.model_validate(
            {
                "text": "".join(self._parts),
                "tokens": self._tokens,
                "question_tokens": self._question_tokens,
                "probability": self._watch and self._watch.probability(),
                "finish": self._finish,
            }
        )

    def _take(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self._on_token(text)


def _chunk(data: str, server: RemoteServer, streamed: bool = False) -> Chunk:
    where = server.url
    try:
        event = _Event.model_validate(parse_json(data, ChatError, "It", MAX_EVENT_VALUES))
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"]
        raise ChatError(
            f"{where} sent something that is not a reply ({reason}): {server.quote(data)}"
        ) from error
    except ChatError as error:
        raise ChatError(
            f"{where} sent something that is not a reply. {error.message} {server.quote(data)}".rstrip()
        ) from error
    if event.error is not None:
        raise ChatError(f"{where} reports an error: {server.quote(str(event.error))}")
    if not event.choices:
        # The last event of a stream may hold the usage alone.
        if streamed:
            return Chunk("", **_counts(event.usage))
        raise ChatError(f"{where} sent a reply without choices: {server.quote(data)}")
    choice = event.choices[0]
    text = choice.delta or choice.message
    tokens = (choice.logprobs.content if choice.logprobs else None) or []
    content = (text.content if text else None) or ""
    reasoning = (text and (text.reasoning_content or text.reasoning)) or ""
    return Chunk(
        text=content[: MAX_TEXT_CHARACTERS + 1],
        reasoning=reasoning[: MAX_TEXT_CHARACTERS + 1],
        tokens=len(tokens) or int(bool(content or reasoning)),
        **_counts(event.usage),
        finish=choice.finish_reason,
        alternatives=tuple(
            (token.token, tuple((top["token"], top["logprob"]) for top in token.top_logprobs))
            for token in tokens
        ),
    )


def _counts(usage: _Usage | None) -> dict[str, Any]:
    """What a server says of the tokens, as fields of a chunk."""
    if usage is None:
        return {}
    return {"total_tokens": usage.completion_tokens or 0, "question_tokens": usage.prompt_tokens}
