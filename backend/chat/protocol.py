"""Interface of vision-language models: messages in, one reply out.

A reply contains the probability of the verdict that the backend measured from logits, because only the
backend can do that. Nothing here knows about planners or critics: backend/agents builds the messages and
parses the answers. Abilities that only some backends have are in abilities.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, runtime_checkable

from pydantic import Field

from ..answers.grammar import GrammarName
from ..pictures import Picture
from ..prompts.prompt_set import PromptSet
from ..types import Text, Value
from .image_limits import MAX_PIXELS, MAX_PIXELS_BOUND

MAX_TOKENS = 4096
"""Default token limit of an answer."""
THOUGHT = "<think>"
DRAWN = {"temperature": 0.7, "top_p": 0.8}
"""Sampling settings recommended by the authors of Qwen3-VL."""
LATER = ("top_p", "top_k", "max_pixels", "watch_yes_no")
"""Settings that were added later; at their defaults they are not part of the cache key."""
ChatRole = Literal["", "planner", "critic"]
"""Agent that asks; empty for all others, such as judges of a benchmark."""


class Message(Value):
    """One turn: text and images in the order in which the model sees them."""

    role: Literal["system", "user", "assistant"]
    content: tuple[Text | Picture, ...]


class ReplySettings(Value):
    """Decoding settings. Temperature 0 is greedy and deterministic."""

    max_tokens: int | None = Field(
        default=None,
        ge=1,
        le=65536,
        description="Token limit of an answer. Default: 16384 for a plan and 4096 for a verdict, and never "
        "more than fits into the model's context.",
    )
    temperature: float = Field(
        default=0.0, ge=0.0, le=2.0, description="Sampling temperature. 0 decodes greedily."
    )
    top_p: float = Field(
        default=1.0,
        gt=0.0,
        le=1.0,
        description="Nucleus sampling: sample from the most likely tokens with this total probability. "
        "No effect at temperature 0.",
    )
    top_k: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Sample from this number of most likely tokens; 0 disables the limit. No effect at "
        "temperature 0. Supported by vLLM, SGLang and llama.cpp servers.",
    )
    seed: int = Field(default=0, ge=0, le=2**53, description="Sampling seed. No effect at temperature 0.")
    max_pixels: int = Field(
        default=MAX_PIXELS,
        ge=1024,
        le=MAX_PIXELS_BOUND,
        description="Maximum image size that the agent sees, in pixels. Larger images are scaled down.",
    )
    watch_verdict: bool = Field(
        default=False,
        description="Report P(success) of the verdict. A reply of a local or GGUF agent that is constrained "
        "to the grammar of verdicts also ends once the verdict is true.",
    )
    watch_yes_no: bool = Field(
        default=False,
        description="Report P(yes) of an answer that starts with yes or no.",
    )
    grammar: GrammarName | None = Field(
        default=None,
        description="Constrain the reply to the grammar of this answer. Local models need llguidance, and "
        "servers must accept a JSON schema.",
    )
    role: ChatRole = Field(
        default="",
        exclude=True,
        description="Agent that asks. A llama.cpp server caches the prompts of each role separately. Not "
        "part of the cache key.",
    )

    @property
    def limit(self) -> int:
        """Token limit of the answer."""
        return self.max_tokens or MAX_TOKENS

    def drawn(self) -> ReplySettings:
        """Return the settings with sampling, since greedy decoding often repeats the first reply."""
        return self if self.temperature > 0 else self.model_copy(update=DRAWN)

    def seeded(self, seed: int = 0, temperature: float = 0.0) -> ReplySettings:
        """Return the settings with another seed and temperature, each unless it is 0.

        A seed turns sampling on, since it has no effect at temperature 0.
        """
        given = {"seed": seed, "temperature": temperature}
        settings = self.model_copy(update={name: value for name, value in given.items() if value})
        return settings.drawn() if seed else settings

    def key(self) -> str:
        """Return everything that can change a reply, as part of a cache key."""
        # Later settings at their defaults are left out, so that runs from before them can be resumed.
        later = {name for name in LATER if getattr(self, name) == type(self).model_fields[name].default}
        return self.model_dump_json(exclude=later)


class Reply(Value):
    """A model's answer.

    `probability` is P(success) or P(yes). It requires `watch_verdict` or `watch_yes_no`, and logits.
    """

    text: str
    tokens: int = Field(default=0, ge=0)
    question_tokens: int | None = Field(
        default=None, ge=0, description="Tokens of the prompt; None if the backend does not report it."
    )
    cached_tokens: int | None = Field(
        default=None,
        ge=0,
        description="Tokens of the prompt that a server had in its cache; None if it does not report it.",
    )
    probability: float | None = Field(default=None, ge=0.0, le=1.0)
    finish: Literal["end", "length", "verdict"] = "end"
    thinking: bool | None = Field(
        default=None,
        description="Whether the prompt had opened <think>; None if it is unknown (of a server).",
    )

    @property
    def whole(self) -> str:
        """The reply to be parsed, with the <think> that its prompt had opened.

        If that is unknown, a reply that was cut off before its answer may consist of thought only.
        """
        text = self.text.lstrip().lower()
        unknown = self.thinking is None and self.finish == "length" and "</think>" not in text
        may_think = unknown and not text.startswith(("<think>", "<answer>", "{", "```"))
        return f"{THOUGHT}{self.text}" if self.thinking or may_think else self.text


@runtime_checkable
class ChatModel(Protocol):
    """A chat backend.

    `prompt_set` is the one that its checkpoint was trained with; with `None` the pack's own is used. It can
    be called from several threads: each gets the reply that it would get alone, and `on_token` is called in
    the caller's thread. A backend with one model answers one call at a time.
    """

    @property
    def identity(self) -> str:
        """Model and all of its own settings that affect a reply; part of cache keys."""
        ...

    @property
    def prompt_set(self) -> PromptSet | None:
        """Prompt set of the checkpoint; `None` if it has none."""
        ...

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Answer a conversation.

        Args:
            messages: The conversation.
            settings: Decoding settings.
            on_token: Called with each new piece of text, and with an empty text while a remote model is slow.
                It may raise `Cancelled`.

        Raises:
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        ...
