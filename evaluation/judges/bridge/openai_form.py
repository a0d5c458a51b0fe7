"""OpenAI's chat completions API."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import ConfigDict, Field

from ....backend.chat.protocol import Message
from ....backend.pictures import Picture
from ....backend.values import ValidTexts
from .request import BadRequest, BridgeRequest, decode_image, settings_of

DONE = "data: [DONE]\n\n"
IDENTITY = "chatcmpl-judge"


class _Open(ValidTexts):
    model_config = ConfigDict(extra="ignore")


class _Address(_Open):
    url: str


class _Part(_Open):
    type: str
    text: str | None = None
    image_url: _Address | None = None


class _Message(_Open):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_Part]


class OpenAIBody(_Open):
    """Body of POST .../chat/completions, as far as a judge uses it."""

    model: str = "judge"
    messages: list[_Message] = Field(min_length=1, max_length=1000)
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
        if self.n not in (None, 1):
            raise BadRequest(f"n is {self.n}, but a judge gives one answer. Send n=1.")
        settings = settings_of(
            self.temperature, self.top_p, self.max_completion_tokens or self.max_tokens, self.seed
        )
        messages = tuple(_message(one) for one in self.messages)
        return BridgeRequest(messages, settings, self.model, bool(self.stream))


def _message(one: _Message) -> Message:
    parts = [one.content] if isinstance(one.content, str) else [_part(part) for part in one.content]
    return Message(role="system" if one.role == "developer" else one.role, content=tuple(parts))


def _part(part: _Part) -> str | Picture:
    if part.text is not None:
        return part.text
    if part.image_url is None:
        raise BadRequest(f"A part has type {part.type[:40]!r}; only text and image_url are supported.")
    head, comma, data = part.image_url.url.partition(";base64,")
    if not head.startswith("data:image/") or not comma:
        raise BadRequest("An image is not inline. Send it as data:image/...;base64,...")
    return decode_image(data)


def answer(question: BridgeRequest, text: str) -> dict[str, Any]:
    """Return the reply as one JSON object."""
    return {
        "id": IDENTITY,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": question.model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def events(question: BridgeRequest, text: str) -> Iterator[str]:
    """Yield the reply as an event stream."""
    for delta, finish in (({"role": "assistant", "content": text}, None), ({}, "stop")):
        chunk = {
            "id": IDENTITY,
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": question.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }
        yield f"data: {json.dumps(chunk)}\n\n"
    yield DONE


def error(status: int, message: str) -> dict[str, Any]:
    """Return an error in the format of the API."""
    return {"error": {"message": message, "type": "judge_error", "param": None, "code": status}}
