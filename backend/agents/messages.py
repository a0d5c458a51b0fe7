"""Builds a message from a filled template and images."""

from __future__ import annotations

from collections.abc import Sequence

from ..chat.protocol import Message
from ..errors import ChatError, SettingsError
from ..pictures import Picture
from ..prompts import fill
from ..types import MAX_TEXT

IMAGE_MARK = "<image>"
"""Place of an image in a template or a request."""


def filled_parts(template: str, **values: str) -> list[str]:
    """Return the filled template, split at its own image marks. A mark inside a value stays text."""
    return [fill(part, **values) for part in template.split(IMAGE_MARK)]


def message_of(parts: Sequence[str], pictures: Sequence[Picture]) -> Message:
    """Return a message with images between the parts, or with all images before a single part.

    Raises:
        SettingsError: A text is too long.
    """
    if len(parts) == 1:
        return _question((*pictures, parts[0]))
    content: list[str | Picture] = []
    for index, part in enumerate(parts):
        if part:
            content.append(part)
        if index < len(pictures):
            content.append(pictures[index])
    return _question(tuple(content))


def bounded(text: str, reader: str, hint: str) -> str:
    """Return a text of a message to `reader`, such as "the prompt enhancer".

    Raises:
        ChatError: It is too long.
    """
    if len(text) > MAX_TEXT:
        raise ChatError(f"The message to {reader} is longer than {MAX_TEXT} characters.", hint)
    return text


def _question(content: tuple[str | Picture, ...]) -> Message:
    if any(isinstance(part, str) and len(part) > MAX_TEXT for part in content):
        raise SettingsError(
            f"The message to the agent is longer than {MAX_TEXT} characters.",
            "Shorten the request or the prompt.",
        )
    return Message(role="user", content=content)
