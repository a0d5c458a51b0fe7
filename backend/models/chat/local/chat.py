"""A checkpoint in this process, run by transformers: Qwen3-VL, or an untested family.

No other family is named here. A processor is asked for its tokens and inputs in the ways that the library
provides for all families, so a new family works, untested, as soon as the library supports it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ....core.errors import ChatError, boundary
from ....core.machine.counters import count
from ....core.pictures import Picture
from ....core.prompts.agent_card import Role
from ....core.prompts.trained_with import TrainedWith, trained_with
from ....core.seams.chat_model import ChatModel, Message, OnToken, Reply, ReplySettings, scaled_down
from ....core.types.values import read_options
from ...checkpoints.checkpoint import check_adapter, find_checkpoint, path_of
from ..chat_template import opens_thought, rendered
from ..verdict_watch import verdict_tokens, yes_no_tokens
from .base_model import BaseSettings, SharedBase, end_tokens, shared_base
from .generation import (
    Processor,
    ReplyListener,
    Sampler,
    decode,
    follow,
    forget_prefix,
    keep_written,
    read_question,
    sampling_processors,
    uses_static_cache,
)

MARK = re.compile(r"<[^\s<>]{2,60}>|\[[A-Z_/]{3,40}\]")
"""Pattern of control tokens: `<start_of_turn>`, `<|im_end|>`, `[INST]`."""
OURS = re.compile(r"</?(?:think|answer|s)>")
"""Tags that agents are asked to write, and a tag that is common in texts."""
OPTIONS = BaseSettings
"""Settings that `open` accepts as options."""


def controls_of(processor: Any, tested: bool) -> list[str]:
    """Return texts that the tokenizer or the processor would take for control tokens."""
    tokens = [str(token) for token in processor.tokenizer.all_special_tokens]
    if tested:
        return [token for token in tokens if token.startswith("<|")]
    own = [getattr(processor, f"{name}_token", None) for name in ("image", "video", "audio", "boi", "eoi")]
    tokens += [token for token in own if isinstance(token, str)]
    tokens += [str(added) for added in processor.tokenizer.added_tokens_decoder.values() if added.special]
    found = {token for token in tokens if MARK.fullmatch(token) and not OURS.fullmatch(token)}
    # The longest first, since one may be a part of another.
    return sorted(found, key=lambda token: (-len(token), token))


def model_inputs(
    processor: Any, asked: Sequence[tuple[str, Sequence[Picture]]], model: Any
) -> dict[str, Any]:
    """Return the tensors of rendered prompts with their images, on the model's device."""
    device = next(model.parameters()).device
    bos = getattr(processor.tokenizer, "bos_token", None)
    # A template that writes the first token itself would duplicate it.
    own = bos if bos and _adds(processor.tokenizer, bos) else ""
    texts = [prompt.removeprefix(own) for prompt, _ in asked]
    # Nested as in the library itself: the images of each conversation. Some processors take a plain list for
    # several conversations with one image each.
    images = [[picture.image for picture in pictures] for _, pictures in asked]
    padded: dict[str, Any] = {"padding": True, "padding_side": "left"} if len(asked) > 1 else {}
    inputs = processor(text=texts, images=images if any(images) else None, return_tensors="pt", **padded)
    return {
        name: tensor.to(device, model.dtype) if tensor.is_floating_point() else tensor.to(device)
        for name, tensor in inputs.items()
        if hasattr(tensor, "is_floating_point")
    }


def _adds(tokenizer: Any, bos: str) -> bool:
    ids = tokenizer("a")["input_ids"]
    return bool(ids) and ids[0] == tokenizer.convert_tokens_to_ids(bos)


class TransformersChat(ChatModel):
    """A base model with or without an adapter.

    `model` is the torch module, which a host may move between devices.
    """

    def __init__(
        self, base: SharedBase, adapter: str | None = None, trained: TrainedWith | None = None
    ) -> None:
        self.base = base
        self.adapter = adapter
        self._trained = trained or TrainedWith(base.folder.name)
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
    def identity(self) -> str:
        """Everything that affects a reply."""
        parts = [f"transformers:{self.base.folder.name}", self.base.digest, self.base.dtype]
        if self.base.settings.quantization:
            parts.append(self.base.settings.quantization)
        parts += [f"adapter={self.adapter}"] if self.adapter else []
        parts += [f"prompts={self.prompt_set.digest}"] if self.prompt_set else []
        return ":".join(parts)

    @property
    def trained(self) -> TrainedWith:
        """What the checkpoint was trained with."""
        return self._trained

    @property
    def constrains_replies(self) -> bool:
        """Whether the library for constrained decoding is installed."""
        from ..grammars import grammar_is_installed

        return grammar_is_installed()

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: OnToken | None = None,
    ) -> Reply:
        """Answer a conversation on the current device of the model.

        Raises:
            ChatError: The model failed.
            Cancelled: The run was cancelled.
        """
        with self._ready() as model:
            return self._decoded(model, [self._prompt(messages, settings)], settings, on_token)[0]

    @property
    def answers_together(self) -> bool:
        """Whether it answers several messages in one batch."""
        return self.base.is_tested

    def reply_together(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: OnToken | None = None,
    ) -> list[Reply]:
        """Return a reply to each message, decoded as a batch if `answers_together`.

        `on_token` gets empty texts, since it could not assign a text to a reply.

        Raises:
            ChatError: The model failed.
            Cancelled: The run was cancelled.
        """

        def hear(text: str) -> None:
            if on_token is not None:
                on_token("")

        with self._ready() as model:
            asked = [self._prompt([message], settings) for message in messages]
            if self.answers_together:
                return self._decoded(model, asked, settings, hear)
            return [self._decoded(model, [one], settings, hear)[0] for one in asked]

    def _decoded(
        self,
        model: Any,
        asked: Sequence[tuple[str, list[Picture]]],
        settings: ReplySettings,
        on_token: OnToken | None,
    ) -> list[Reply]:
        """Return the replies to questions, as one batch."""
        inputs = model_inputs(self.base.processor, asked, model)
        length = inputs["input_ids"].shape[1]
        room = self._room(length, settings)
        samplers = [self._sampler(prompt, settings, room, on_token) for prompt, _ in asked]
        engine = self.base.settings.engine
        is_single = self.base.is_tested and len(samplers) == 1
        static = is_single and uses_static_cache(model, inputs, engine.static_cache, room, self._ends)
        read = None
        try:
            if is_single and not static and length <= engine.prefix_tokens:
                read = read_question(model, self.adapter, inputs, [picture.digest for picture in asked[0][1]])
            if read is None:
                replies = decode(model, inputs, samplers, room, self._ends, static)
            else:
                replies = [follow(model, inputs["input_ids"], *read, samplers[0], room)]
        except BaseException:
            # Memory may be short.
            forget_prefix(model)
            raise
        keep_written(model, samplers)
        count(prompt_tokens=length * len(asked), reply_tokens=sum(reply.tokens for reply in replies))
        return replies

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

    def _sampler(self, prompt: str, settings: ReplySettings, room: int, on_token: OnToken | None) -> Sampler:
        from ..grammars import grammar_is_installed

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
        return Sampler(listener, processors, settings)

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


def check(argument: str, *, adapter: str | None = None, download: bool = False) -> None:
    """Check that the folders exist, before torch is imported. Errors are those of `open`."""
    if not download or path_of(argument).is_dir():
        find_checkpoint(argument, untested=True)
    if adapter is not None:
        check_adapter(path_of(adapter))


def open(
    argument: str,
    *,
    adapter: str | None = None,
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
        share: Share the base model with other agents.
        download: Download the hub id if it is not cached.
        role: Job of the agent. A model that was trained for another one is refused before it is loaded.
        options: Fields of `BaseSettings`.

    Raises:
        ChatError: The checkpoint or adapter cannot be loaded.
        SettingsError: An option is not valid, or the model was trained for another job.
    """
    settings = read_options("Chat backend 'transformers'", BaseSettings, options)
    folder = find_checkpoint(argument, download, untested=True)
    adapter_folder = Path(adapter).expanduser() if adapter is not None else None
    trained = trained_with(folder)
    if adapter_folder is not None:
        trained = trained_with(adapter_folder, adapter=True).over(trained)
    if role is not None:
        trained.check_role(role)
    base = shared_base(folder, settings, share)
    name = None if adapter_folder is None else base.add_adapter(adapter_folder)
    return TransformersChat(base, name, trained)
