"""Node that uses a text encoder loaded by ComfyUI, such as that of the image model, as an agent.

For text encoders of the Qwen family, prompts use the agent's own format (ChatML with image marks in place),
since the encoder's default template puts all images first and suppresses the reasoning. The host reports no
probabilities and does not stream, so a verdict has no probability and the reply comes at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from comfy_api.latest import io

from ...backend.core.errors import ChatError, boundary
from ...backend.core.pictures import Picture
from ...backend.core.prompts.prompt_set import PromptSet
from ...backend.core.seams.chat_model import ChatModel, Message, Reply, ReplySettings, scaled_down
from .. import host
from ..inputs.images import to_batch
from ..inputs.sockets import CLIP, AgentSocket, check_connected, node_schema
from ..inputs.validation import FROM_THE_AGENT, only_text
from ..sampling.identity import weights_identity
from .reply_inputs import chosen_prompts, prompts_input, reply_inputs, reply_settings

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


class HostChat(ChatModel):
    """A chat backend with a CLIP that can generate text.

    Raises:
        SettingsError: The CLIP cannot generate text.
    """

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
        """Identity for cache keys."""
        return f"host:{self._name}"

    @property
    def most_tokens(self) -> int:
        """Maximum answer length in tokens. The host reserves memory for it: 1.2 GB with an 8B model."""
        return 8192

    @property
    def prompt_set(self) -> PromptSet | None:
        """Prompt set of the agent, `None` for the pack's own."""
        return self._prompts

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Return the whole reply at once, without a probability.

        Raises:
            Cancelled: The user pressed cancel.
            ChatError: The text encoder failed.
        """
        host.stop_if_interrupted()
        pictures = [part for message in messages for part in message.content if isinstance(part, Picture)]
        images = [to_batch(scaled_down(picture, settings.max_pixels).image) for picture in pictures]
        prompt = chat_prompt(messages) if self._marks else plain_prompt(messages)
        with (
            self._one_at_a_time,
            host.explaining_out_of_memory(),
            boundary(ChatError, "The host's text encoder"),
        ):
            written = host.write_text(self._clip, prompt, images, self._marks, settings)
        host.stop_if_interrupted()
        if on_token is not None:
            on_token(written.text)
        finish = "length" if written.is_full else "end"
        return Reply(text=written.text, tokens=written.tokens, finish=finish)


def chat_prompt(messages: Sequence[Message]) -> str:
    """Return the conversation in ChatML with image marks, ending at the start of the agent's turn."""
    turns = []
    for message in messages:
        parts = (IMAGE if isinstance(part, Picture) else as_words(part) for part in message.content)
        turns.append(f"<|im_start|>{message.role}\n{''.join(parts)}<|im_end|>\n")
    return f"{''.join(turns)}<|im_start|>assistant\n"


def plain_prompt(messages: Sequence[Message]) -> str:
    """Return the conversation as one text, for text encoders with their own template."""
    texts = [
        "".join(as_words(part) for part in message.content if isinstance(part, str)) for message in messages
    ]
    return "\n\n".join(texts)


def as_words(text: str) -> str:
    """Return the text with control tokens broken up, since in a user's text they would act as real ones."""
    return text.replace("<|", "< |")


class HostAgent(io.ComfyNode):
    """Uses a loaded text encoder that can generate text as the planner or critic."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveHostAgent",
            shown=(),
            inputs=[io.Clip.Input("clip"), prompts_input(), *reply_inputs()],
            outputs=[AgentSocket.Output("AGENT")],
        )

    @classmethod
    def execute(cls, clip: Any, prompts: str = FROM_THE_AGENT, **replies: Any) -> io.NodeOutput:
        """Create the agent."""
        check_connected("Agent from CLIP", CLIP, clip=clip)
        only_text("Agent from CLIP", prompts=prompts)
        settings = reply_settings("Agent from CLIP", replies)
        return io.NodeOutput(HostChat(clip, settings, chosen_prompts(prompts)))
