"""Interface of vision-language models: messages in, one reply out, and what a backend may be able to do.

A reply contains the probability of the verdict that the backend measured from logits, because only the
backend can do that. Nothing here knows about planners or critics: backend/story/agents builds the messages
and parses the answers.

Images are scaled down, or framed in white if they are too wide or too tall, once and here, for all backends
alike. So a local checkpoint and a server with the same weights see the same pixels. The limit does not depend
on the number of images: the smaller limit of the published demo for five and more images never had an effect.
The sizes that a checkpoint itself defines are applied after this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal

from PIL import Image
from pydantic import Field
from typing_extensions import TypeIs

from ..answers.grammar import GrammarName
from ..pictures import Picture
from ..prompts.prompt_set import PromptSet
from ..prompts.trained_with import TrainedWith
from ..types import Plan, Text, Value
from .adoption import adopt, forwards, has_member

MAX_TOKENS = 4096
"""Default token limit of an answer."""
MAX_PIXELS = 1_048_576
"""Default maximum area, in pixels, of an image that is shown to an agent."""
MAX_PIXELS_BOUND = 16_777_216
MAX_RATIO = 200
"""Maximum ratio of the sides. The image processor of Qwen-VL raises a ValueError above it."""
THOUGHT = "<think>"
DRAWN = {"temperature": 0.7, "top_p": 0.8}
"""Sampling settings recommended by the authors of Qwen3-VL."""
LATER = ("top_p", "top_k", "max_pixels", "watch_yes_no")
"""Settings that were added later; at their defaults they are not part of the cache key."""
OnToken = Callable[[str], None]
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
        description="Whether the prompt had opened <think>; None if unknown, as of servers.",
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


class ChatModel(ABC):
    """A chat backend. A subclass has `identity` and `reply`, and overrides what else its model can do.

    It can be called from several threads: each gets the reply that it would get alone, and `on_token` is
    called in the caller's thread. A backend with one model answers one call at a time.
    """

    @property
    @abstractmethod
    def identity(self) -> str:
        """Model and all of its own settings that affect a reply; part of cache keys."""

    @abstractmethod
    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: OnToken | None = None,
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

    @property
    def prompt_set(self) -> PromptSet | None:
        """Prompt set that the checkpoint was trained with; with `None` the pack's own is used."""
        return self.trained.prompt_set if self.trained else None

    @property
    def trained(self) -> TrainedWith | None:
        """What the checkpoint was trained with; `None` if it is unknown."""
        return None

    @property
    def sees_images(self) -> bool:
        """Whether the model can see images; true if unknown."""
        return True

    @property
    def writes_texts(self) -> bool:
        """Whether the model can write other texts than plans and verdicts; true if unknown."""
        return True

    @property
    def constrains_replies(self) -> bool:
        """Whether a reply can be constrained to the grammar of its answer here."""
        return False

    @property
    def most_tokens(self) -> int | None:
        """Token limit of an answer for which the backend reserves memory; `None` if it reserves none."""
        return None

    @property
    def weights(self) -> object:
        """The weights on a device of this machine, the same object for agents that share them, or `None`."""
        return None

    def offload(self) -> None:  # noqa: B027 - optional
        """Free the device. The next reply loads the weights again."""

    @property
    def answers_together(self) -> bool:
        """Whether `reply_together` answers in one batch."""
        return False

    def reply_together(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: OnToken | None = None,
    ) -> list[Reply]:
        """Return a reply to each message, the same as for separate calls except for rounding.

        `on_token` is called with an empty text at every token and may raise `Cancelled`.

        Raises:
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """

        def hear(text: str) -> None:
            if on_token is not None:
                on_token("")

        return [self.reply([message], settings, hear) for message in messages]

    def check_request(self, text: str) -> None:  # noqa: B027 - optional
        """Check that the model can plan a request, if it knows that in advance.

        Raises:
            SettingsError: It cannot.
        """

    def plan_warning(self, text: str, plan: Plan) -> str:
        """Return a warning about the plan of a request; empty if there is none."""
        return ""


@forwards(ChatModel, to="_chat")
class ChatWrapper(ChatModel):
    """A chat model that passes everything on to another one. Override what differs."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = adopt(chat, ChatModel)

    @property
    def identity(self) -> str:
        """Same as the wrapped model."""
        return self._chat.identity


def shares_weights(chat: ChatModel, other: object) -> bool:
    """Return whether another model is a chat with the same weights on a device."""
    return chat.weights is not None and getattr(other, "weights", None) is chat.weights


def is_chat(found: object) -> TypeIs[ChatModel]:
    """Return whether an object is a chat backend, with or without the base class."""
    return has_member(found, "reply")


def shown_size(size: tuple[int, int], area: int) -> tuple[int, int]:
    """Return the width and height at which a model is shown an image of this size (see `scaled_down`)."""
    width, height = (max(side, -(-max(size) // MAX_RATIO)) for side in size)
    if width * height > area:
        scale = (area / (width * height)) ** 0.5
        width, height = (max(1, min(int(side * scale), area)) for side in (width, height))
    return min(width, MAX_RATIO * height), min(height, MAX_RATIO * width)


def scaled_down(picture: Picture, area: int) -> Picture:
    """Return the image with at most `area` pixels, in its aspect ratio; unchanged if it is not larger.

    An image that is more than 200 times as wide as it is high, or the other way around, is centered on white
    with that ratio.
    """
    size = shown_size(picture.size, area)
    if size == picture.size:
        return picture
    if max(picture.size) <= MAX_RATIO * min(picture.size):
        return Picture(picture.image.resize(size, Image.Resampling.BICUBIC))
    scale = min(1.0, max(size) / max(picture.size))
    width, height = (max(1, round(side * scale)) for side in picture.size)
    shown = picture.image.resize((min(width, size[0]), min(height, size[1])), Image.Resampling.BICUBIC)
    framed = Image.new(shown.mode, size, "white")
    framed.paste(shown, ((size[0] - shown.width) // 2, (size[1] - shown.height) // 2))
    return Picture(framed)
