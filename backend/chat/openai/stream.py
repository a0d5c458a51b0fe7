"""Reads the answer of a chat server: server-sent events, or one JSON object from servers that do not stream.

All data from the server is validated by pydantic and limited in size. An unknown field is ignored, and a
field of the wrong type is a ChatError that quotes it. Token counts are only additional information, so an
invalid one does not cause an error. Servers split characters between events; the halves are joined before the
text is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ...errors import ChatError
from ...files.bounded_reader import parse_json
from ...remote.api_keys import GrowingMask, KeyMask
from ...remote.call import OnText
from ...remote.server import RemoteServer
from ...shown_text import JoinedHalves
from ..protocol import Reply, ReplySettings
from ..verdict_watch import AnswerWatch, VerdictWatch, YesNoWatch, probability_of_true
from .events import MAX_TEXT_CHARACTERS, Event

if TYPE_CHECKING:
    import httpx

MAX_REPLY_BYTES = 32 * 1024 * 1024
MAX_LINE_BYTES = 8 * 1024 * 1024
MAX_EVENT_VALUES = 1_000_000
"""Maximum number of values in one JSON text.

An answer of 4,096 tokens with twenty alternatives each, spelled out byte by byte, has that many."""


Alternatives = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Chunk:
    """A piece of a reply.

    `reasoning` is the text that the server extracted from think tags. `alternatives` contains each token with
    its most likely alternatives and their log-probabilities.
    """

    text: str
    reasoning: str = ""
    tokens: int = 0
    total_tokens: int = 0
    question_tokens: int | None = None
    cached_tokens: int | None = None
    finish: str | None = None
    alternatives: tuple[tuple[str, Alternatives], ...] = ()


def read_chunks(server: RemoteServer, response: httpx.Response) -> Iterator[Chunk]:
    """Yield the pieces of a reply as they arrive, in whole characters.

    Raises:
        ChatError: The answer is not a reply, or it is too large.
    """
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
            raise ChatError(
                f"{server.url} sent more than {MAX_TEXT_CHARACTERS} characters.", "Lower the token limit."
            )
        ended = ended or chunk.finish is not None
        yield chunk
    if not ended:
        raise ChatError(
            f"{server.url} broke off its answer after {length} characters.", "Check the server's log."
        )


class _WholeCharacters:
    """Joins characters that are split between pieces, in text, reasoning and tokens."""

    def __init__(self) -> None:
        self._text, self._reasoning, self._tokens = JoinedHalves(), JoinedHalves(), JoinedHalves()

    def add(self, chunk: Chunk) -> Chunk:
        """Return a piece with whole characters."""
        reasoning = self._reasoning.add(chunk.reasoning)
        if chunk.text:
            # When the reply starts, the reasoning is complete.
            reasoning += self._reasoning.end()
        return replace(
            chunk,
            text=self._text.add(chunk.text),
            reasoning=reasoning,
            alternatives=tuple((self._tokens.add(token), others) for token, others in chunk.alternatives),
        )

    def end(self) -> Chunk:
        """Return the rest that waited for its second half."""
        return Chunk(text=self._text.end(), reasoning=self._reasoning.end())


def watch_of(settings: ReplySettings, held: bool) -> AnswerWatch | None:
    """Return what follows a reply with these settings; `held` as in `VerdictWatch`."""
    if settings.watch_yes_no:
        return YesNoWatch()
    return VerdictWatch(held=held) if settings.watch_verdict else None


def probability_in(
    piece: str, alternatives: Alternatives, words: tuple[str, str] = ("true", "false")
) -> float | None:
    """Return the probability of the first of two words if `piece` starts one of them.

    It is P(success) for the words of a verdict, and `None` if the alternatives lack a word.
    """
    yes, no = words
    sides: dict[str, list[float]] = {yes: [], no: []}
    for token, logprob in alternatives:
        word = token.strip(" \"'\n\t").lower()
        for name, side in sides.items():
            if word and name.startswith(word):
                side.append(logprob)
    return probability_of_true(sides[yes], sides[no])


class StreamedReply:
    """A reply assembled from chunks, with the key masked and the probability of its `watch` measured.

    It is read to its end, since only then it is certain that the model does not correct its answer. The
    exception is a reply whose answer is certainly final before its end: it is complete once it is `settled`.
    """

    def __init__(self, watch: AnswerWatch | None, on_token: OnText, mask: KeyMask) -> None:
        self._parts: list[str] = []
        self._tokens = 0
        self._question_tokens: int | None = None
        self._cached_tokens: int | None = None
        self._in_reasoning = False
        self._finish = "end"
        self._watch = watch
        self._on_token = on_token
        self._mask = GrowingMask(mask)

    def add(self, chunk: Chunk) -> None:
        """Add a chunk."""
        reasoning = self._reasoning_in(chunk)
        self._watch_for_verdict(reasoning, chunk)
        text = reasoning + chunk.text
        if self.settled and self._watch is not None:
            self._finish = "verdict"
            text = text[: len(text) - self._watch.stop()]
        self._take(self._mask.add(text))
        self._tokens = chunk.total_tokens or self._tokens + chunk.tokens
        if chunk.question_tokens is not None:
            self._question_tokens = chunk.question_tokens
        if chunk.cached_tokens is not None:
            self._cached_tokens = chunk.cached_tokens
        if chunk.finish == "length":
            self._finish = "length"

    @property
    def settled(self) -> bool:
        """Whether nothing that may follow can change the verdict."""
        return self._watch is not None and self._watch.settled

    def _reasoning_in(self, chunk: Chunk) -> str:
        """Return the reasoning that a server separated from the reply, with its tags."""
        written = chunk.reasoning
        if written and not self._in_reasoning:
            written, self._in_reasoning = f"<think>{written}", True
        if chunk.text and self._in_reasoning:
            written, self._in_reasoning = f"{written}</think>", False
        return written

    def _watch_for_verdict(self, reasoning: str, chunk: Chunk) -> None:
        if self._watch is None:
            return
        # Log-probabilities show where tokens start. Without them the text alone shows the verdict.
        pieces = chunk.alternatives
        if "".join(piece for piece, _ in pieces) != chunk.text:
            pieces = ((chunk.text, ()),)
        for piece, alternatives in ((reasoning, ()), *pieces):
            if self._watch.add(piece):
                words = ("yes", "no") if isinstance(self._watch, YesNoWatch) else ("true", "false")
                self._watch.measured(probability_in(piece, alternatives, words))

    def reply(self) -> Reply:
        """Return the reply so far."""
        self._take(self._mask.end())
        return Reply.model_validate(
            {
                "text": "".join(self._parts),
                "tokens": self._tokens,
                "question_tokens": self._question_tokens,
                "cached_tokens": self._cached_tokens,
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
        event = Event.model_validate(parse_json(data, ChatError, "It", MAX_EVENT_VALUES))
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"]
        raise ChatError(
            f"{where} sent an answer that is not a reply ({reason}): {server.quote(data)}"
        ) from error
    except ChatError as error:
        raise ChatError(
            f"{where} sent an answer that is not a reply. {error.message} {server.quote(data)}".rstrip()
        ) from error
    if event.error is not None:
        raise ChatError(f"{where} reported an error: {server.quote(str(event.error))}")
    if not event.choices:
        # The last event of a stream may contain only the usage.
        if streamed:
            return Chunk("", **_counts(event))
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
        **_counts(event),
        finish=choice.finish_reason,
        alternatives=tuple(
            (token.token, tuple((top["token"], top["logprob"]) for top in token.top_logprobs))
            for token in tokens
        ),
    )


def _counts(event: Event) -> dict[str, Any]:
    """Return the server's token counts as fields of a chunk."""
    counts: dict[str, Any] = {"cached_tokens": event.cached_tokens}
    if event.usage is not None:
        counts |= {
            "total_tokens": event.usage.completion_tokens or 0,
            "question_tokens": event.usage.prompt_tokens,
        }
    return counts
