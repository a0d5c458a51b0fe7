"""A streamed reply of the chat API of OpenAI: what the server's events contain, and the reply made of them.

Everything is read with bounds, the key is masked in every text, and P(success) is measured from the
log-probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, PlainValidator, ValidationError
from typing_extensions import TypedDict

from ...core.errors import ChatError, first_fault
from ...core.files.bounded_reader import parse_json
from ...core.remote.api_keys import GrowingMask, KeyMask
from ...core.remote.call import OnText
from ...core.remote.server import RemoteServer
from ...core.seams.chat_model import Reply
from ...core.shown_text import valid_text
from ...core.types.values import ValidTexts
from .verdict_watch import AnswerWatch, YesNoWatch, probability_of_true

if TYPE_CHECKING:
    import httpx

MAX_TEXT_CHARACTERS = 1_000_000
MAX_CHOICES = 16
MAX_EVENT_TOKENS = 100_000
MAX_ALTERNATIVES = 100
TEXT_PARTS = ("text", "output_text")
MAX_REPLY_BYTES = 32 * 1024 * 1024
MAX_LINE_BYTES = 8 * 1024 * 1024
MAX_EVENT_VALUES = 1_000_000
"""Maximum number of values in one JSON text.

An answer of 4,096 tokens with twenty alternatives each, spelled out byte by byte, has that many."""
Alternatives = tuple[tuple[str, float], ...]


def _as_written(value: Any) -> str:
    """Return a text without lone surrogates, which pydantic's `str` rejects."""
    if not isinstance(value, str):
        raise ValueError(f"a text is expected, but got {type(value).__name__}")
    return valid_text(value)


def _joined_parts(value: Any) -> str | None:
    """Return the content of a message: a text, or the joined text parts of a list from some servers."""
    if not isinstance(value, list):
        return None if value is None else _as_written(value)
    texts = [one.get("text") for one in value if isinstance(one, dict) and one.get("type") in TEXT_PARTS]
    if len(texts) < len(value):
        raise ValueError("a part of the content is not a text")
    return "".join(map(_as_written, texts))


def _token_count(value: Any, *names: str) -> int | None:
    """Return the token count at this path; `None` if it is not a possible count."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value % 1 == 0
    return int(value) if whole and 0 <= value <= MAX_TEXT_CHARACTERS else None


_Written = Annotated[str, PlainValidator(_as_written)]
_Content = Annotated[str | None, PlainValidator(_joined_parts)]


class _TopToken(TypedDict):
    """A dictionary: an answer may have hundreds of thousands, and a model takes three times the memory."""

    token: _Written
    logprob: float


class _Token(BaseModel):
    token: _Written
    logprob: float = 0.0
    top_logprobs: list[_TopToken] = Field(default_factory=list, max_length=MAX_ALTERNATIVES)


class _Logprobs(BaseModel):
    content: list[_Token] | None = Field(default=None, max_length=MAX_EVENT_TOKENS)


class _Text(BaseModel):
    content: _Content = None
    reasoning_content: _Content = None
    reasoning: _Content = None


class _Choice(ValidTexts):
    delta: _Text | None = None
    message: _Text | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class Event(BaseModel):
    """An event of a stream, or a whole reply."""

    choices: list[_Choice] = Field(default_factory=list, max_length=MAX_CHOICES)
    usage: object = None
    timings: object = None
    """Counts of llama.cpp's server, which older versions send without usage details."""
    error: object = None

    @property
    def counts(self) -> dict[str, int]:
        """The token counts that the server reports, by their names in a reply."""
        cached = _token_count(self.usage, "prompt_tokens_details", "cached_tokens")
        found = {
            # A server that reports no tokens of the reply does not count them.
            "tokens": _token_count(self.usage, "completion_tokens") or None,
            "question_tokens": _token_count(self.usage, "prompt_tokens"),
            "cached_tokens": _token_count(self.timings, "cache_n") if cached is None else cached,
        }
        return {name: number for name, number in found.items() if number is not None}


@dataclass(frozen=True)
class Chunk:
    """A piece of a reply: its text, the reasoning that the server extracted from it, and its token counts.

    `alternatives` contains each token with its most likely alternatives and their log-probabilities.
    """

    text: str
    reasoning: str = ""
    tokens: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    finish: str | None = None
    alternatives: tuple[tuple[str, Alternatives], ...] = ()


def chunks(server: RemoteServer, response: httpx.Response) -> Iterator[Chunk]:
    """Yield the pieces of a reply as they arrive.

    Raises:
        ChatError: The answer is not a reply, or it is too large.
    """
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
        self._counts: dict[str, int] = {}
        self._in_reasoning = False
        self._finish: Literal["end", "length", "verdict"] = "end"
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
        self._tokens += chunk.tokens
        self._counts |= chunk.counts
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
        return Reply(
            text="".join(self._parts),
            tokens=self._counts.get("tokens", self._tokens),
            question_tokens=self._counts.get("question_tokens"),
            cached_tokens=self._counts.get("cached_tokens"),
            probability=self._watch and self._watch.probability(),
            finish=self._finish,
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
        reason = first_fault(error).reason
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
            return Chunk("", counts=event.counts)
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
        counts=event.counts,
        finish=choice.finish_reason,
        alternatives=tuple(
            (token.token, tuple((top["token"], top["logprob"]) for top in token.top_logprobs))
            for token in tokens
        ),
    )
