"""A checkpoint in this process, run by transformers: Qwen3-VL, or an untested family (other_families.py).

The engine decodes (engine/engine.py), or `generate` if the engine is switched off or was found inexact.
Streaming, cancelling, P(success) and the early stop are done by a listener that works with both
(reply_listener.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...checkpoints.checkpoint import find_checkpoint
from ...errors import ChatError, SettingsError, boundary
from ...pictures import Picture
from ...prompts.agent_card import Role
from ...prompts.prompt_set import PromptSet
from ...prompts.trained_with import TrainedWith, trained_with
from ..chat_template import opens_thought, rendered
from ..image_limits import scaled_down
from ..protocol import Message, Reply, ReplySettings
from ..verdict_watch import verdict_tokens, yes_no_tokens
from .decoding import (
    Processor,
    Sampler,
    decode,
    decode_by_library,
    decode_together,
    sampling_processors,
)
from .loading import BaseSettings, end_tokens
from .other_families import controls_of, model_inputs
from .reply_listener import ReplyListener
from .shared_base import SharedBase, shared_base


class TransformersChat:
    """A base model with or without an adapter.

    `model` is the torch module, which a host may move between devices.
    """

    def __init__(
        self, base: SharedBase, adapter: str | None = None, trained: TrainedWith | None = None
    ) -> None:
        self.base = base
        self.adapter = adapter
        self.trained = trained or TrainedWith(base.folder.name)
        self._prompt_set = self.trained.prompt_set
        self.processors: list[Processor] = []
        """Logits processors: each gets the ids so far `(1, length)` and the scores `(1, vocabulary)` of the
        next token, and returns the scores."""
        tokenizer = base.processor.tokenizer
        self._verdict_tokens = verdict_tokens(tokenizer)
        self._yes_no_tokens = yes_no_tokens(tokenizer)
        self._ends = end_tokens(base.model, base.processor, base.folder)
        # Control tokens in a user's text would be taken for real ones.
        self._controls = controls_of(base.processor, base.is_tested)

    @property
    def model(self) -> Any:
        """The base model."""
        return self.base.model

    @property
    def weights(self) -> object:
        """The base; the same object for agents that share their weights."""
        return self.base

    def offload(self) -> None:
        """Free the device until the next reply."""
        self.base.offload()

    @property
    def is_settled(self) -> bool:
        """Whether the check at first use is done."""
        return self.base.is_settled

    @property
    def identity(self) -> str:
        """Everything that affects a reply.

        It depends on the check at first use, which is run if necessary.
        """
        parts = [f"transformers:{self.base.folder.name}", self.base.digest, self.base.dtype]
        if self.base.settings.quantization:
            parts.append(self.base.settings.quantization)
        # Tokens that are processed together are rounded differently.
        if drafts := self.base.effective_settings(self.adapter).prompt_lookup_tokens:
            parts.append(f"drafts={drafts}")
        parts += [f"adapter={self.adapter}"] if self.adapter else []
        parts += [f"prompts={self._prompt_set.digest}"] if self._prompt_set else []
        return ":".join(parts)

    @property
    def prompt_set(self) -> PromptSet | None:
        """Prompt set that the checkpoint was trained with."""
        return self._prompt_set

    @property
    def constrains_replies(self) -> bool:
        """Whether the library for constrained decoding is installed."""
        from .grammar_processor import grammar_is_installed

        return grammar_is_installed()

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Answer a conversation on the current device of the model.

        Raises:
            ChatError: The model failed.
            Cancelled: The run was cancelled.
        """
        with self._ready() as model:
            prompt, pictures = self._prompt(messages, settings)
            engine = self.base.engine()
            if engine is None:
                return self._generate(model, prompt, pictures, settings, on_token)
            with engine.answering(model):
                session = engine.read(model, self.adapter, prompt, pictures)
                room = self._room(session.ids.shape[1], settings)
                sampler = self._sampler(prompt, settings, room, on_token)
                decode(session, sampler, room)
            return sampler.listener.reply()

    def reply_together(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> list[Reply]:
        """Return a reply to each message.

        They are decoded as a batch if they differ only in images of the same shapes and the temperature is 0,
        else one after another. `on_token` gets empty texts, since it could not assign a text to a reply.

        Raises:
            ChatError: The model failed.
            Cancelled: The run was cancelled.
        """

        def hear(text: str) -> None:
            if on_token is not None:
                on_token("")

        with self._ready() as model:
            asked = [self._prompt([message], settings) for message in messages]
            prompts, shown = {prompt for prompt, _ in asked}, [pictures for _, pictures in asked]
            engine = self.base.engine()
            if engine is not None and len(prompts) == 1 and settings.temperature == 0:
                prompt = prompts.pop()
                with engine.answering(model):
                    batch = engine.read_together(model, self.adapter, prompt, shown)
                    if batch is not None:
                        room = self._room(batch.ids.shape[1], settings)
                        samplers = [self._sampler(prompt, settings, room, hear) for _ in messages]
                        decode_together(batch, samplers, room)
                        return [sampler.listener.reply() for sampler in samplers]
        return [self.reply([message], settings, hear) for message in messages]

    @contextmanager
    def _ready(self) -> Iterator[Any]:
        """Lock the model with its adapter. Errors inside are raised as ChatError."""
        import torch

        with (
            boundary(ChatError, f"Model {self.base.folder.name!r}"),
            torch.inference_mode(),
            self.base.selected(self.adapter) as model,
        ):
            yield model

    def _room(self, read: int, settings: ReplySettings) -> int:
        """Return how many tokens an answer may have after a prompt of `read` tokens.

        Raises:
            ChatError: The prompt fills the context.
        """
        context = self.base.context
        if read >= context:
            raise ChatError(
                f"The prompt has {read} tokens, but the context of {self.base.folder.name!r} is {context}.",
                "Show it fewer or smaller images (max_pixels), or shorten the request.",
            )
        return min(settings.limit, context - read)

    def _sampler(
        self, prompt: str, settings: ReplySettings, room: int, on_token: Callable[[str], None] | None
    ) -> Sampler:
        from .grammar_processor import grammar_is_installed

        thinking = opens_thought(prompt)
        tokenizer = self.base.processor.tokenizer
        constrained = settings.grammar is not None and grammar_is_installed()
        held = constrained and settings.grammar == "verdict"
        watched = self._yes_no_tokens if settings.watch_yes_no else self._verdict_tokens
        listener = ReplyListener(tokenizer, self._ends, watched, settings, thinking, on_token, held)
        processors = [*self.processors, *sampling_processors(settings)]
        if settings.grammar is not None and constrained:
            grammar = self.base.grammar_tokens(self._ends)
            processors.insert(0, grammar.processor(settings.grammar, thinking, room))
        return Sampler(listener, processors, settings.seed if settings.temperature > 0 else None)

    def _generate(
        self,
        model: Any,
        prompt: str,
        pictures: Sequence[Picture],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None,
    ) -> Reply:
        inputs = model_inputs(self.base.processor, prompt, pictures, model)
        room = self._room(inputs["input_ids"].shape[1], settings)
        sampler = self._sampler(prompt, settings, room, on_token)
        decode_by_library(model, inputs, sampler, room, self._ends)
        return sampler.listener.reply()

    def _prompt(self, messages: Sequence[Message], settings: ReplySettings) -> tuple[str, list[Picture]]:
        """Return the conversation as text, with one image token for each image, and the images in order."""
        conversation, pictures = [], []
        for message in messages:
            content = []
            for part in message.content:
                if isinstance(part, Picture):
                    pictures.append(scaled_down(part, settings.max_pixels))
                    content.append({"type": "image"})
                else:
                    content.append({"type": "text", "text": self._without_controls(part)})
            conversation.append({"role": message.role, "content": content})
        return rendered(self.base.processor, conversation), pictures

    def _without_controls(self, text: str) -> str:
        for control in self._controls:
            text = text.replace(control, f"{control[0]} {control[1:]}")
        return text


OPTIONS = BaseSettings
"""Settings that `open` accepts as options."""


def open(
    argument: str,
    *,
    adapter: str | None = None,
    merge: bool = False,
    share: bool = True,
    download: bool = False,
    role: Role | None = None,
    **options: Any,
) -> TransformersChat:
    """Open a checkpoint of a vision-language model.

    The record of what an adapter was trained with overrides that of its base model.

    Args:
        argument: A folder, or a hub id in the local cache.
        adapter: Folder of a LoRA adapter.
        merge: Merge the adapter into separate weights instead of attaching it to shared ones.
        share: Share the base model with other agents.
        download: Download the hub id if it is not cached.
        role: Job of the agent. A model that was trained for another one is refused before it is loaded.
        options: Fields of `BaseSettings`.

    Raises:
        ChatError: The checkpoint or adapter cannot be loaded.
        SettingsError: An option is not valid, or the model was trained for another job.
    """
    try:
        settings = BaseSettings(**options)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(map(str, fault["loc"]))
        value = str(fault["input"])[:100]
        raise SettingsError(
            f"Option {name}={value} of chat backend 'transformers': {fault['msg']}."
        ) from error
    folder = find_checkpoint(argument, download, untested=True)
    if merge and adapter is None:
        raise SettingsError("merge is set without an adapter.", "Give an adapter, or do not set merge.")
    adapter_folder = Path(adapter).expanduser() if adapter is not None else None
    trained = trained_with(folder)
    if adapter_folder is not None:
        trained = trained_with(adapter_folder, adapter=True).over(trained)
    if role is not None:
        trained.check_role(role)
    base = shared_base(folder, settings, share, adapter_folder if merge else None)
    name = None if merge or adapter_folder is None else base.add_adapter(adapter_folder)
    return TransformersChat(base, name, trained)
