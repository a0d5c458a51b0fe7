"""Pydantic models of the events that a chat server sends."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, PlainValidator
from typing_extensions import TypedDict

from ...values import ValidTexts

MAX_TEXT_CHARACTERS = 1_000_000
MAX_CHOICES = 16
MAX_TOKENS = 100_000
MAX_ALTERNATIVES = 100


def _as_written(value: Any) -> str:
    """Return a text that may contain a lone surrogate, which pydantic's `str` rejects."""
    if not isinstance(value, str):
        raise ValueError(f"a text is expected, but got {type(value).__name__}")
    return value


def _joined_parts(value: Any) -> str | None:
    """Return the content of a message: a text, or the joined text parts of a list from some servers."""
    if not isinstance(value, list):
        return None if value is None else _as_written(value)
    texts = [one.get("text") for one in value if isinstance(one, dict) and one.get("type") in TEXT_PARTS]
    if len(texts) < len(value):
        raise ValueError("a part of the content is not a text")
    return "".join(map(_as_written, texts))


def _token_count(value: Any) -> int | None:
    """Return a token count; `None` if the value is not a possible count."""
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value % 1 == 0
    return int(value) if whole and 0 <= value <= MAX_TEXT_CHARACTERS else None


TEXT_PARTS = ("text", "output_text")
_Written = Annotated[str, PlainValidator(_as_written)]
_Content = Annotated[str | None, PlainValidator(_joined_parts)]
_Count = Annotated[int | None, PlainValidator(_token_count)]


class _TopToken(TypedDict):
    """A dictionary: an answer may have hundreds of thousands, and a model takes three times the memory."""

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


def _object_or_none(value: Any) -> Any:
    return value if isinstance(value, dict) else None


class _PromptDetails(BaseModel):
    cached_tokens: _Count = None


class Usage(BaseModel):
    """Token counts of a reply."""

    completion_tokens: _Count = None
    prompt_tokens: _Count = None
    prompt_tokens_details: Annotated[_PromptDetails | None, BeforeValidator(_object_or_none)] = None


class _Timings(BaseModel):
    """Counts of llama.cpp's server, which older versions send without usage details."""

    cache_n: _Count = None


class Event(BaseModel):
    """An event of a stream, or a whole reply."""

    choices: list[_Choice] = Field(default_factory=list, max_length=MAX_CHOICES)
    usage: Annotated[Usage | None, BeforeValidator(_object_or_none)] = None
    timings: Annotated[_Timings | None, BeforeValidator(_object_or_none)] = None
    error: object = None

    @property
    def cached_tokens(self) -> int | None:
        """Tokens of the prompt that were in the server's cache."""
        details = self.usage.prompt_tokens_details if self.usage else None
        cached = details.cached_tokens if details else None
        return self.timings.cache_n if cached is None and self.timings else cached
