"""Reads what a chat server sends: server-sent events, or one JSON object from servers that do not stream.

Decision: everything from the server is checked by pydantic and bounded in size; an unknown field is ignored, a field of
the wrong kind is a ChatError that quotes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field, ValidationError

from ..errors import ChatError
from .decoding import probability_of_true

if TYPE_CHECKING:
    import httpx

MAX_REPLY_BYTES = 32 * 1024 * 1024
MAX_TEXT_CHARACTERS = 1_000_000


class _TopToken(BaseModel):
    token: str
    logprob: float


class _Token(BaseModel):
    token: str
    logprob: float = 0.0
    top_logprobs: list[_TopToken] = Field(default_factory=list)


class _Logprobs(BaseModel):
    content: list[_Token] | None = None


class _Text(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    delta: _Text | None = None
    message: _Text | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Usage(BaseModel):
    completion_tokens: int | None = None


class _Event(BaseModel):
    choices: list[_Choice] = Field(default_factory=list)
    usage: _Usage | None = None
    error: object = None


Alternatives = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Chunk:
    """A piece of a reply; `alternatives` has each token with its most probable alternatives and their log-probabilities."""

    text: str
    tokens: int = 0
    total_tokens: int = 0
    finish: str | None = None
    alternatives: tuple[tuple[str, Alternatives], ...] = ()


def read_chunks(response: httpx.Response, where: str) -> Iterator[Chunk]:
    """The pieces of a reply as they arrive; raises ChatError for anything else than a reply, or too large a one."""
    kind = response.headers.get("content-type", "")
    lines = _lines(response, where)
    if "text/event-stream" not in kind:
        yield _chunk("\n".join(lines), where)
        return
    length = 0
    for line in lines:
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            return
        chunk = _chunk(data, where, streamed=True)
        length += len(chunk.text)
        if length > MAX_TEXT_CHARACTERS:
            raise ChatError(f"{where} sent more than {MAX_TEXT_CHARACTERS} characters.")
        yield chunk


def probability_in(piece: str, alternatives: Alternatives) -> float | None:
    """P(True) where `piece` begins the verdict's word; None unless both words are among the alternatives."""
    sides: dict[str, list[float]] = {"true": [], "false": []}
    for token, logprob in alternatives:
        word = token.strip(" \"'\n\t").lower()
        for name, side in sides.items():
            if word and name.startswith(word):
                side.append(logprob)
    return probability_of_true(sides["true"], sides["false"])


def _lines(response: httpx.Response, where: str) -> Iterator[str]:
    """Lines of the body without their ends; a line or a body beyond the limit is an error before it is in memory."""
    pending, size = b"", 0
    for part in response.iter_bytes():
        size += len(part)
        if size > MAX_REPLY_BYTES:
            raise ChatError(f"{where} sent more than {MAX_REPLY_BYTES} bytes.")
        *whole, pending = (pending + part).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace").rstrip("\r")
    if pending:
        yield pending.decode("utf-8", "replace").rstrip("\r")


def _chunk(data: str, where: str, streamed: bool = False) -> Chunk:
    try:
        event = _Event.model_validate_json(data)
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"]
        raise ChatError(f"{where} sent something that is not a reply ({reason}): {data[:200]!r}") from error
    if event.error is not None:
        raise ChatError(f"{where} reports an error: {str(event.error)[:200]}")
    if not event.choices:
        # The last event of a stream may hold the usage alone.
        if streamed:
            return Chunk("", total_tokens=(event.usage and event.usage.completion_tokens) or 0)
        raise ChatError(f"{where} sent a reply without choices: {data[:200]!r}")
    choice = event.choices[0]
    text = choice.delta or choice.message
    tokens = (choice.logprobs.content if choice.logprobs else None) or []
    content = (text.content if text else None) or ""
    return Chunk(
        text=content[: MAX_TEXT_CHARACTERS + 1],
        tokens=len(tokens) or int(bool(content)),
        total_tokens=(event.usage and event.usage.completion_tokens) or 0,
        finish=choice.finish_reason,
        alternatives=tuple(
            (token.token, tuple((top.token, top.logprob) for top in token.top_logprobs)) for token in tokens
        ),
    )
