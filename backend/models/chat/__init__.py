"""Chat backends by name. To add one: a new file with an `open(argument)` function, and a line in REGISTRY."""

from __future__ import annotations

from typing import TypedDict

from ...core.machine import registry
from ...core.machine.registry import Registry
from ...core.seams.adoption import adopt
from ...core.seams.chat_model import ChatModel, Message, Reply, ReplySettings

REGISTRY = {
    "tinyworld": "...tinyworld.chat",
    "transformers": ".chat.local.chat",
    "openai": ".chat.openai_chat",
    "llamacpp": ".chat.llamacpp_chat",
    "scripted": ".chat.scripted",
}
CHAT_BACKENDS = Registry(
    "chat backend",
    REGISTRY,
    __name__.removesuffix(".chat"),
    registry.CHAT_BACKENDS,
    files={"": "transformers", ".gguf": "llamacpp"},
)

__all__ = [
    "CHAT_BACKENDS",
    "REGISTRY",
    "BackendOptions",
    "ChatModel",
    "Message",
    "Reply",
    "ReplySettings",
    "open_chat",
]


class BackendOptions(TypedDict, total=False):
    """Options of a local model, for those that open one by name. `None` is the backend's default."""

    adapter: str | None
    """Folder of a LoRA adapter."""
    dtype: str | None
    device: str | None
    quantization: str | None
    download: bool | None
    """Whether a hub id may be downloaded."""


def open_chat(spec: str, **options: object) -> ChatModel:
    """Open a chat backend that is built in or from an installed plug-in.

    Args:
        spec: `NAME` or `NAME:ARGUMENT`, such as `transformers:FOLDER` or `openai:MODEL@URL`.
        **options: Options of the backend, such as `device`. `None` leaves an option at its default.

    Raises:
        SettingsError: The name is unknown, the backend cannot be imported, or an option is not valid.
    """
    return adopt(CHAT_BACKENDS.open(spec, **options), ChatModel)
