"""Chat backends by name. Adding one: a new file with an `open(argument)` function, and a line in REGISTRY."""

from __future__ import annotations

from ..registry import open_by_spec
from .protocol import ChatModel, Message, Reply, ReplySettings

REGISTRY = {
    "tinyworld": "..tinyworld.runtime.chat",
    "transformers": ".chat.local.chat",
    "openai": ".chat.openai.client",
    "llamacpp": ".chat.llamacpp.chat",
    "scripted": ".chat.scripted",
}

__all__ = ["REGISTRY", "ChatModel", "Message", "Reply", "ReplySettings", "open_chat"]


def open_chat(spec: str, **options: object) -> ChatModel:
    """Open `NAME` or `NAME:ARGUMENT` (such as `transformers:FOLDER`, `openai:MODEL@URL`); raises
    SettingsError."""
    return open_by_spec("chat backend", REGISTRY, spec, **options)
