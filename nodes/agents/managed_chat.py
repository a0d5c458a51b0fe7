"""A chat model under the host's memory management, which stops when the user presses cancel.

The model is loaded before every reply and not once, since the diffusion model may have taken the GPU in
between. The host's memory manager decides what stays, so a GPU with room for one model at a time is enough.
The working memory of a reply is estimated from the model's shape and the request, as in `doctor --plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ...backend.core.pictures import Picture
from ...backend.core.prompts.prompt_set import PromptSet
from ...backend.core.seams.chat_model import (
    MAX_PIXELS,
    MAX_TOKENS,
    ChatModel,
    ChatWrapper,
    Message,
    Reply,
    ReplySettings,
)
from ...backend.core.seams.generator import Generator
from ...backend.models.vram.placement import FRAGMENTS, AgentPrecision, agent_work
from ...backend.models.vram.shapes import AgentShape, agent_shape
from ...backend.output.live.interruptible import InterruptibleGenerator, ListenedCritic
from .. import host
from .reply_inputs import settings_of

if TYPE_CHECKING:
    from ...backend.pipeline.story_check import StoryReview

BYTES_PER_TOKEN = 3
"""Bytes of UTF-8 text per token: more in English, three for a Chinese character (mostly one token)."""
UNKNOWN_WORK = 2 * 1024**3
"""Working memory in bytes of other models: more than an 8B Qwen3-VL needs for a long plan (1.5 GB)."""
MAX_IMAGE_TOKENS = 4096
"""Tokens of one image in a model for which they are unknown."""
PRECISIONS: dict[str | None, AgentPrecision] = {"8bit": "8-bit", "4bit": "4-bit"}
_residences: WeakSet[host.ManagedModel] = WeakSet()
"""Residences of all existing agents."""


class ManagedChat(ChatWrapper):
    """Wraps a chat model; its torch module, if any, is the attribute `model` of that chat.

    Args:
        chat: The chat model.
        on_card: Move the module to the GPU. False for the tiny world's agents, which are fastest on the CPU.
        accept_at: The agent's own acceptance threshold as a critic (inputs.validation.accept_at_of).
        settings: Its reply settings (reply_inputs.settings_of).
        prompts: Prompt set that wins over the chat's own.
    """

    def __init__(
        self,
        chat: ChatModel,
        on_card: bool = True,
        accept_at: float | None = None,
        settings: ReplySettings | None = None,
        prompts: PromptSet | None = None,
    ) -> None:
        self.accept_at, self.settings, self._prompts = accept_at, settings, prompts
        super().__init__(chat)
        self._server = getattr(chat, "server", None)
        module = getattr(chat, "model", None) if on_card else None
        self._residence = residence_of(chat, module)
        if self._residence is not None:
            _residences.add(self._residence)
        self._shape = shape_of(getattr(module, "config", None))
        self._precision: AgentPrecision = PRECISIONS.get(
            getattr(getattr(chat, "base", None), "quantization", None), "bf16"
        )
        self._token_bytes = token_bytes(getattr(module, "config", None))
        self._bytes_each = max(2, getattr(getattr(module, "dtype", None), "itemsize", 2))

    @property
    def prompt_set(self) -> PromptSet | None:
        """Prompt set of the agent, `None` for the pack's own."""
        return self._prompts or self._chat.prompt_set

    @property
    def weights(self) -> object:
        """`None`: the host moves the weights."""
        return None

    def offload(self) -> None:
        """Do nothing: the host moves the weights."""

    def is_at(self, residence: host.ManagedModel) -> bool:
        """Return whether these are this agent's weights."""
        return self._residence is residence

    def get_ram_usage(self) -> int:
        """Return the bytes of this agent, for the host's cache under memory pressure."""
        if self._residence is None:
            return getattr(self._server, "size", 0)
        return self._residence.size

    def working_bytes(self, messages: Sequence[Message], answer: int, largest: int = MAX_PIXELS) -> int:
        """Return the working memory in bytes of a reply, in addition to the weights.

        Args:
            messages: The conversation.
            answer: Maximum number of tokens of the reply.
            largest: Maximum number of pixels of an image.
        """
        text_tokens, images = measured(messages)
        if self._shape is None:
            tokens = text_tokens + MAX_IMAGE_TOKENS * len(images) + answer
            return UNKNOWN_WORK + tokens * self._token_bytes
        work = agent_work(self._shape, text_tokens, images, answer, self._precision, largest)
        # The estimate is for 16 bits per value.
        return int(work * (1 + FRAGMENTS) * self._bytes_each / 2)

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Load the model and return its reply.

        Raises:
            Cancelled: The user pressed cancel; raised at the next token.
            ChatError: The agent failed or ran out of memory.
        """
        self._come([messages], settings)
        with host.explaining_out_of_memory():
            return self._chat.reply(messages, settings, watching(on_token))

    def _come(self, conversations: Sequence[Sequence[Message]], settings: ReplySettings) -> None:
        """Load the model with working memory for the answers to these conversations."""
        host.stop_if_interrupted()
        if self._residence is not None:
            # Few answers have the maximum length, and memory for it would unload other models.
            answer = min(settings.limit, MAX_TOKENS)
            work = (self.working_bytes(one, answer, settings.max_pixels) for one in conversations)
            self._residence.ensure_loaded(sum(work))

    def reply_together(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> list[Reply]:
        """Load the model, answer all, and raise Cancelled at the next token once the user presses cancel."""
        self._come([[message] for message in messages], settings)
        with host.explaining_out_of_memory():
            return self._chat.reply_together(messages, settings, watching(on_token))


def watching(on_token: Callable[[str], None] | None) -> Callable[[str], None]:
    """Return a listener that forwards text and raises Cancelled once the user presses cancel."""

    def watch(text: str) -> None:
        host.stop_if_interrupted()
        if on_token is not None and text:
            on_token(text)

    return watch


def offload_others(staying: object) -> None:
    """Unload every other agent from the GPU, such as the planner before images are generated."""
    for residence in list(_residences):
        if not (isinstance(staying, ManagedChat) and staying.is_at(residence)):
            residence.offload()


def residence_of(chat: ChatModel, module: Any) -> host.ManagedModel | None:
    """Return the manager of a chat's weights on the GPU, `None` if it has none there.

    Plain weights are moved. Quantized weights and those of a server are read from disk again.
    """
    server: Any = getattr(chat, "server", None)
    if server is not None and server.on_card:
        return host.ManagedModel.of_process(server)
    if module is None:
        return None
    base: Any = getattr(chat, "base", None)
    if base is not None and getattr(base, "quantization", None) is not None:
        return host.ManagedModel.of_reloadable(base)
    return host.ManagedModel.of(module)


def shape_of(config: Any) -> AgentShape | None:
    """Return the shape in a Qwen3-VL configuration, `None` for another model."""
    if config is None or not hasattr(config, "to_dict"):
        return None
    try:
        return agent_shape(config.to_dict())
    except (KeyError, TypeError):
        return None


def token_bytes(config: Any) -> int:
    """Return the bytes of one token in a model's key/value cache at 16 bits, 0 if unknown."""
    get_text = getattr(config, "get_text_config", None)
    text = get_text() if callable(get_text) else None
    layers, heads = (getattr(text, name, None) for name in ("num_hidden_layers", "num_attention_heads"))
    width = getattr(text, "hidden_size", None)
    if not (isinstance(layers, int) and isinstance(heads, int) and isinstance(width, int) and heads):
        return 0
    kept = getattr(text, "num_key_value_heads", None) or heads
    return layers * kept * (getattr(text, "head_dim", None) or width // heads) * 2 * 2


def measured(messages: Sequence[Message]) -> tuple[int, list[int]]:
    """Return an upper estimate of a prompt's text tokens, and the areas of its images in pixels."""
    text_tokens, images = 0, []
    for message in messages:
        for part in message.content:
            if isinstance(part, Picture):
                images.append(part.size[0] * part.size[1])
            else:
                text_tokens += len(part.encode()) // BYTES_PER_TOKEN
    return text_tokens, images


def interruptible(generator: Generator) -> InterruptibleGenerator:
    """Return the generator, stopped when the user presses cancel."""
    return InterruptibleGenerator(generator, host.stop_if_interrupted)


def review_with(chat: ChatModel, most: int, on_start: Callable[[], None]) -> StoryReview:
    """Return the story check by this agent.

    Args:
        chat: The agent.
        most: Maximum number of images that are generated again.
        on_start: Called before each check, which does not start after cancel.

    Raises:
        SettingsError: The agent cannot check stories, or `most` is out of range.
    """
    from ...backend.pipeline.story_check import StoryChecker, StoryReview

    def start() -> None:
        host.stop_if_interrupted()
        on_start()

    checker = StoryChecker(chat, settings_of(chat), staying=[chat])
    return StoryReview(checker, most, start)


def critic_with(
    chat: ChatModel,
    listener: Callable[[str], None] = lambda text: None,
    replies: Mapping[str, Any] | None = None,
) -> ListenedCritic:
    """Return the critic that uses this agent.

    Args:
        chat: The agent.
        listener: Receives its text as it is generated.
        replies: Reply settings that replace those of the agent.
    """
    from ...backend.story.agents.critic import Critic

    settings = settings_of(chat, watch_verdict=True).model_copy(update=replies)
    critic = Critic(chat, settings=settings)
    return ListenedCritic(critic, listener, host.stop_if_interrupted)
