"""A chat model that lives under the host's memory management and stops when the user presses cancel.

Decision: residence is asked for before every reply, not once: between two replies the diffusion model may have taken
the card. The memory manager decides who stays, so agents and image model share a card that holds only one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..backend.chat.protocol import ChatModel, Message, Reply, ReplySettings
from ..backend.pictures import Picture
from ..backend.prompts import PromptSet
from . import host

CHARACTERS_PER_TOKEN = 3
PIXELS_PER_TOKEN = 32 * 32
ACTIVATION_BYTES = 512 * 1024 * 1024


class ManagedChat:
    """Implements ChatModel around another one, whose torch module, if it has one, is its attribute `model`.

    `on_card` False leaves the module where it is: the tiny world's agents are fastest on the CPU. `accept_at` is the
    probability of success that its user wants of it as a critic (strictness.accept_at_of).
    """

    def __init__(self, chat: ChatModel, on_card: bool = True, accept_at: float | None = None) -> None:
        self.accept_at = accept_at
        self._chat = chat
        module = getattr(chat, "model", None) if on_card else None
        self._residence = None if module is None else residence_of(chat, module)
        self._bytes_per_token = kv_bytes_per_token(getattr(module, "config", None))

    @property
    def identity(self) -> str:
        return self._chat.identity

    @property
    def prompt_set(self) -> PromptSet | None:
        return self._chat.prompt_set

    def get_ram_usage(self) -> int:
        """Bytes that keeping this agent costs; the host's cache under memory pressure asks."""
        return 0 if self._residence is None else self._residence.size

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Load the model, answer, and raise Cancelled at the next token once the user presses cancel."""
        host.stop_if_interrupted()
        if self._residence is not None:
            tokens = settings.max_tokens + prompt_tokens(messages)
            self._residence.ensure_loaded(tokens * self._bytes_per_token + ACTIVATION_BYTES)

        def watch(text: str) -> None:
            host.stop_if_interrupted()
            if on_token is not None and text:
                on_token(text)

        with host.explaining_want_of_memory():
            return self._chat.reply(messages, settings, watch)


def residence_of(chat: ChatModel, module: Any) -> host.ManagedModel:
    """What brings a chat's weights onto the card: moving them or, where they are quantised, reading them again."""
    base = getattr(chat, "base", None)
    if getattr(base, "quantization", None) is not None:
        return host.ManagedModel.of_reloadable(base)
    return host.ManagedModel.of(module)


def kv_bytes_per_token(config: Any) -> int:
    """Bytes that one token takes in the key/value cache at 16 bits; 0 for a model whose configuration is unknown."""
    text = getattr(config, "text_config", config)
    layers = getattr(text, "num_hidden_layers", 0)
    heads = getattr(text, "num_key_value_heads", 0)
    width = getattr(text, "head_dim", 0)
    return int(layers * heads * width * 2 * 2)


def prompt_tokens(messages: Sequence[Message]) -> int:
    """A generous estimate of a prompt's tokens."""
    total = 0
    for message in messages:
        for part in message.content:
            if isinstance(part, Picture):
                total += part.size[0] * part.size[1] // PIXELS_PER_TOKEN
            else:
                total += len(part) // CHARACTERS_PER_TOKEN
    return total
