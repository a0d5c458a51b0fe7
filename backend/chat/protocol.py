"""The seam to a language model that sees images: messages in, one reply out.

Decision: a reply carries the probability of the verdict as the backend measured it (from logits), because
only the backend can see it. Nothing here knows about planners or critics; backend/agents builds the messages
and reads the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, runtime_checkable

from pydantic import Field

from ..answers.grammar import GrammarName
from ..pictures import Picture
from ..prompts import PromptSet
from ..prompts.trained_with import TrainedWith
from ..types import Plan, Text, Value
from .image_limits import MAX_PIXELS, MAX_PIXELS_BOUND

MAX_TOKENS = 4096
"""Of an answer for which no other limit is set."""
THOUGHT = "<think>"
DRAWN = {"temperature": 0.7, "top_p": 0.8}
"""As Qwen3-VL's makers recommend sampling."""
LATER = ("top_p", "top_k", "max_pixels")
"""Settings added when there were runs already."""


class Message(Value):
    """One turn: text and pictures in the order in which the model is to see them."""

    role: Literal["system", "user", "assistant"]
    content: tuple[Text | Picture, ...]


class ReplySettings(Value):
    """How to decode. Temperature 0 is greedy and deterministic."""

    max_tokens: int | None = Field(
        default=None,
        ge=1,
        le=65536,
        description="Longest answer, in tokens: by default 16384 for a plan and 4096 for a verdict, and "
        "never more than the model's context has room for.",
    )
    temperature: float = Field(default=0.0, ge=0.0, le=2.0, description="0 is greedy decoding.")
    top_p: float = Field(
        default=1.0,
        gt=0.0,
        le=1.0,
        description="Above temperature 0: draw from the likeliest tokens of together this probability.",
    )
    top_k: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Above temperature 0: draw from so many likeliest tokens, 0 from all. A server must "
        "know it: vLLM, SGLang and llama.cpp do.",
    )
    seed: int = Field(
        default=0, ge=0, le=2**53, description="Seed of sampling when the temperature is above 0."
    )
    max_pixels: int = Field(
        default=MAX_PIXELS,
        ge=1024,
        le=MAX_PIXELS_BOUND,
        description="Largest area of an image that the agent sees, in pixels; larger ones are scaled down.",
    )
    watch_verdict: bool = Field(
        default=False,
        description="Report P(True) at the verdict. A local reply that is constrained to the grammar of "
        "verdicts also ends once it says True.",
    )
    grammar: GrammarName | None = Field(
        default=None,
        description="Constrain the reply to the grammar of this answer; for local models with llguidance.",
    )

    @property
    def limit(self) -> int:
        """Tokens that the answer may have."""
        return self.max_tokens or MAX_TOKENS

    def drawn(self) -> ReplySettings:
        """The same above temperature 0, for asking again: greedily, a model often repeats itself."""
        return self if self.temperature > 0 else self.model_copy(update=DRAWN)

    def seeded(self, seed: int = 0, temperature: float = 0.0) -> ReplySettings:
        """The same with another seed and temperature, each unless it is 0. A seed alone draws, too, for at
        temperature 0 it would change nothing."""
        given = {"seed": seed, "temperature": temperature}
        settings = self.model_copy(update={name: value for name, value in given.items() if value})
        return settings.drawn() if seed else settings

    def key(self) -> str:
        """All that can change a reply, for a cache key."""
        # What is not set is left out, so that runs from before these settings go on.
        later = {name for name in LATER if getattr(self, name) == type(self).model_fields[name].default}
        return self.model_dump_json(exclude=later)


class Reply(Value):
    """A model's answer. `probability` is P(True) at the verdict, only with `watch_verdict` and logits at
    hand."""

    text: str
    tokens: int = Field(default=0, ge=0)
    question_tokens: int | None = Field(
        default=None, ge=0, description="Tokens of what was asked; None where the backend does not say."
    )
    probability: float | None = Field(default=None, ge=0.0, le=1.0)
    finish: Literal["end", "length", "verdict"] = "end"
    thinking: bool | None = Field(
        default=None,
        description="Whether the prompt had opened <think>; None where it is unknown (a server's).",
    )

    @property
    def whole(self) -> str:
        """The reply as it is to be read: with the <think> that its prompt had opened. A reply that was cut
        off and says of no thought whether it is one may be one, unless it begins with its answer."""
        text = self.text.lstrip().lower()
        unknown = self.thinking is None and self.finish == "length" and "</think>" not in text
        may_think = unknown and not text.startswith(("<think>", "<answer>", "{", "```"))
        return f"{THOUGHT}{self.text}" if self.thinking or may_think else self.text


def opens_thought(prompt: str) -> bool:
    """Whether a prompt, as a chat template wrote it, ends in a <think> that the reply is to close."""
    return prompt.rstrip().endswith(THOUGHT)


def as_read(prompt: str, text: str) -> str:
    """The reply to a prompt as it is to be read: with the <think> that the prompt had opened."""
    return f"{THOUGHT}{text}" if opens_thought(prompt) else text


@runtime_checkable
class ChatModel(Protocol):
    """A chat backend. `prompt_set` is the one its checkpoint was trained with, None to use the pack's own.

    Safe to call from several threads: each gets the reply that it would have got alone, and its `on_token` is
    called in its own thread. Who has one model answers one at a time.
    """

    @property
    def identity(self) -> str:
        """Name of the model and of every setting of its own that shapes a reply; part of cache keys."""
        ...

    @property
    def prompt_set(self) -> PromptSet | None:
        """Prompt set of the checkpoint, None if it has none."""
        ...

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Answer the conversation; `on_token` gets text as it arrives, and empty text while a remote model is
        waited for; it may raise Cancelled. Raises ChatError."""
        ...


@runtime_checkable
class RepliesTogether(Protocol):
    """A chat backend that can answer several messages in the same passes through its model."""

    def reply_together(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> list[Reply]:
        """A reply to each message, as if each had been asked alone (but for rounding). `on_token` gets empty
        text at every token and may raise Cancelled. Raises ChatError."""
        ...


@runtime_checkable
class Constrains(Protocol):
    """A chat backend that can constrain a reply to the grammar of its answer."""

    @property
    def constrains_replies(self) -> bool:
        """Whether it can here: the library for it may be missing."""
        ...


@runtime_checkable
class OnDevice(Protocol):
    """A chat backend whose weights are on a device of this machine, and can leave it."""

    @property
    def weights(self) -> object:
        """The same object for agents that share their weights."""
        ...

    def offload(self) -> None:
        """Free the device; the next reply brings the weights again."""
        ...


@runtime_checkable
class Reserves(Protocol):
    """A chat backend that takes memory for the longest answer allowed, however long the answer is."""

    @property
    def most_tokens(self) -> int:
        """Tokens that are allowed unless a person asks for more."""
        ...


@runtime_checkable
class WasTrained(Protocol):
    """A chat backend that knows what its checkpoint was trained with."""

    @property
    def trained(self) -> TrainedWith: ...


@runtime_checkable
class MaySee(Protocol):
    """A chat backend that knows whether its model sees images."""

    @property
    def sees_images(self) -> bool: ...


@runtime_checkable
class ChecksRequests(Protocol):
    """A chat backend that knows beforehand which requests it cannot plan."""

    def check_request(self, text: str) -> None:
        """Raise SettingsError for a request that it cannot plan."""
        ...


@runtime_checkable
class ReviewsPlans(Protocol):
    """A chat backend that can tell what a plan leaves out of its request."""

    def plan_warning(self, text: str, plan: Plan) -> str:
        """Return a warning about the plan of a request; empty if there is none."""
        ...


@runtime_checkable
class Settles(Protocol):
    """A chat backend that has to try its weights, where they are to reply, before its identity is known."""

    @property
    def is_settled(self) -> bool:
        """Whether that is done; the first time that the identity is asked for, or a reply, does it."""
        ...
