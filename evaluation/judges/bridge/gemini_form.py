"""Gemini's generateContent API, as sent by google-genai and, in snake case, by other clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import AliasChoices, ConfigDict, Field

from ....backend.chat.protocol import Message
from ....backend.pictures import Picture
from ....backend.values import ValidTexts
from .request import BadRequest, BridgeRequest, decode_image, settings_of

DONE = "data: [DONE]\n\n"


def _either(snake: str, camel: str) -> Any:
    return Field(default=None, validation_alias=AliasChoices(camel, snake))


class _Open(ValidTexts):
    model_config = ConfigDict(extra="ignore")


class _Inline(_Open):
    data: str


class _Part(_Open):
    text: str | None = None
    inline: _Inline | None = _either("inline_data", "inlineData")


class _Content(_Open):
    role: str | None = None
    parts: list[_Part] = Field(max_length=10_000)


class _Settings(_Open):
    temperature: float | None = Field(default=None, strict=True)
    seed: int | None = Field(default=None, strict=True)
    top_p: float | None = _either("top_p", "topP")
    max_tokens: int | None = _either("max_output_tokens", "maxOutputTokens")


class GeminiBody(_Open):
    """Body of POST .../models/MODEL:generateContent, as far as a judge uses it.

    `stream` is SpecV's extension.
    """

    contents: list[_Content] | _Content
    system: _Content | None = _either("system_instruction", "systemInstruction")
    settings: _Settings | None = _either("generation_config", "generationConfig")
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
            Message(role="assistant" if one.role == "model" else "user", content=_parts(one))
            for one in contents
        ]
        if not messages:
            raise BadRequest("The request has no contents. Send at least one message.")
        if self.system is not None:
            messages.insert(0, Message(role="system", content=_parts(self.system)))
        given = self.settings or _Settings()
        settings = settings_of(given.temperature, given.top_p, given.max_tokens, given.seed)
        return BridgeRequest(tuple(messages), settings, model or self.model or "judge", bool(self.stream))


def _parts(content: _Content) -> tuple[str | Picture, ...]:
    found: list[str | Picture] = []
    for part in content.parts:
        if part.text is not None:
            found.append(part.text)
        elif part.inline is not None:
            found.append(decode_image(part.inline.data))
        else:
            raise BadRequest("A part is neither text nor inline image data. Send images as inline_data.")
    return tuple(found)


def answer(question: BridgeRequest, text: str) -> dict[str, Any]:
    """Return the reply as one JSON object."""
    content = {"role": "model", "parts": [{"text": text}]}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0},
        "modelVersion": question.model,
    }


def events(question: BridgeRequest, text: str, is_native: bool) -> Iterator[str]:
    """Yield the reply as an event stream; in SpecV's format it ends with a mark."""
    yield f"data: {json.dumps(answer(question, text))}\n\n"
    if is_native:
        yield DONE


def error(status: int, message: str) -> dict[str, Any]:
    """Return an error in the format of the API."""
    name = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND"}.get(status, "UNAVAILABLE")
    return {"error": {"code": status, "message": message, "status": name}}
