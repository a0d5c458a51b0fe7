"""Reads what a chat server sends: server-sent events, or one JSON object from servers that do not stream.

Decision: everything from the server is checked by pydantic and bounded in size; an unknown field is ignored,
a field of the wrong kind is a ChatError that quotes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field, ValidationError, field_validator
from typing_extensions import TypedDict

from ...errors import ChatError
from ...files.bounded_reader import parse_json
from ...remote.server import RemoteServer
from ..verdict_watch import probability_of_true

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


class _TopToken(TypedDict):
    """A dictionary: there may be hundreds of thousands in an answer, and a model takes three times the
    memory."""

    token: str
    logprob: float


class _Token(BaseModel):
    token: str
    logprob: float = 0.0
    top_logprobs: list[_TopToken] = Field(default_factory=list, max_length=MAX_ALTERNATIVES)


class _Logprobs(BaseModel):
    content: list[_Token] | None = Field(default=None, max_length=MAX_TOKENS)


class _Text(BaseModel):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(BaseModel):
    delta: _Text | None = None
    message: _Text | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Usage(BaseModel):
    completion_tokens: int | None = None

    @field_validator("completion_tokens")
    @classmethod
    def _possible(cls, value: int | None) -> int | None:
        # A count beside the reply: one that no reply can have is none, and the reply is read all the same.
        return value if value is not None and 0 <= value <= MAX_TEXT_CHARACTERS else None


class _Event(BaseModel):
    choices: list[_Choice] = Field(default_factory=list, max_length=MAX_CHOICES)
    usage: _Usage | None = None
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
    finish: str | None = None
    alternatives: tuple[tuple[str, Alternatives], ...] = ()


def read_chunks(server: RemoteServer, response: httpx.Response) -> Iterator[Chunk]:
    """The pieces of a reply as they arrive; raises ChatError for anything else than a reply, or too large a
    one."""
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


def probability_in(piece: str, alternatives: Alternatives) -> float | None:
    """P(True) where `piece` begins the verdict's word; None unless both words are among the alternatives."""
    sides: dict[str, list[float]] = {"true": [], "false": []}
    for token, logprob in alternatives:
        word = token.strip(" \"'\n\t").lower()
        for name, side in sides.items():
            if word and name.startswith(word):
                side.append(logprob)
    return probability_of_true(sides["true"], sides["false"])


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
            return Chunk("", total_tokens=(event.usage and event.usage.completion_tokens) or 0)
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
        total_tokens=(event.usage and event.usage.completion_tokens) or 0,
        finish=choice.finish_reason,
        alternatives=tuple(
            (token.token, tuple((top["token"], top["logprob"]) for top in token.top_logprobs))
            for token in tokens
        ),
    )
