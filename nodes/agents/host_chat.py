"""A chat model that is a text encoder of the host's: what an artist has loaded for drawing may plan and judge
as well.

Decision: prompts are laid out in the agent's own form (ChatML with marks where the images stand) where the
text encoder is of that family, since its default template puts all images first and suppresses the reasoning.
The host reports no probabilities and does not stream, so a verdict is True or False alone, and comes at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from ...backend.chat.image_limits import scaled_down
from ...backend.chat.protocol import Message, Reply, ReplySettings
from ...backend.errors import ChatError, boundary
from ...backend.pictures import Picture
from ...backend.prompts import PromptSet
from .. import host
from ..inputs.images import to_batch
from ..sampling.weights_identity import weights_identity

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


class HostChat:
    """Implements ChatModel around a CLIP that can generate text. Raises SettingsError for one that cannot."""

    accept_at: float | None = None

    def __init__(
        self, clip: Any, settings: ReplySettings | None = None, prompts: PromptSet | None = None
    ) -> None:
        self.settings, self._prompts = settings, prompts
        host.check_writes(clip)
        self._clip = clip
        self._one_at_a_time = threading.Lock()
        self._marks = host.chat_marks(clip)
        self._name = weights_identity(clip.patcher)

    @property
    def identity(self) -> str:
        return f"host:{self._name}"

    @property
    def most_tokens(self) -> int:
        """The host makes room for the whole answer at once: 1.2 GB with an 8B model."""
        return 8192

    @property
    def prompt_set(self) -> PromptSet | None:
        return self._prompts

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """The whole reply at once, without a probability. Raises Cancelled, ChatError."""
        host.stop_if_interrupted()
        pictures = [part for message in messages for part in message.content if isinstance(part, Picture)]
        images = [to_batch(scaled_down(picture, settings.max_pixels).image) for picture in pictures]
        prompt = chat_prompt(messages) if self._marks else plain_prompt(messages)
        with (
            self._one_at_a_time,
            host.explaining_out_of_memory(),
            boundary(ChatError, "The host's text encoder"),
        ):
            written = host.write_text(
                self._clip,
                prompt,
                images,
                self._marks,
                settings,
            )
        host.stop_if_interrupted()
        if on_token is not None:
            on_token(written.text)
        finish = "length" if written.is_full else "end"
        return Reply(text=written.text, tokens=written.tokens, finish=finish)


def chat_prompt(messages: Sequence[Message]) -> str:
    """The conversation in ChatML, images marked where they stand, ending where the agent is to answer."""
    turns = []
    for message in messages:
        parts = (IMAGE if isinstance(part, Picture) else as_words(part) for part in message.content)
        turns.append(f"<|im_start|>{message.role}\n{''.join(parts)}<|im_end|>\n")
    return f"{''.join(turns)}<|im_start|>assistant\n"


def plain_prompt(messages: Sequence[Message]) -> str:
    """The conversation as one text, for text encoders with a form of their own, which is laid around it."""
    texts = [
        "".join(as_words(part) for part in message.content if isinstance(part, str)) for message in messages
    ]
    return "\n\n".join(texts)


def as_words(text: str) -> str:
    """Control marks written out in a user's text would be taken for the real ones."""
    return text.replace("<|", "< |")
