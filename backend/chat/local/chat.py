"""A checkpoint in this process, by transformers: Qwen3-VL, or a family that is untested (other_families.py).

Decision: the engine decodes (engine/engine.py), and `generate` where that is switched off or was found
inexact. What is special (streaming, cancelling, P(True), the early stop) is done by listening in, in the same
way for both (reply_listener.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from ...checkpoints.checkpoint import find_checkpoint
from ...errors import ChatError, SettingsError, boundary
from ...pictures import Picture
from ...prompts import PromptSet
from ...prompts.trained_with import TrainedWith, trained_with
from ..chat_template import rendered
from ..image_limits import scaled_down
from ..protocol import Message, Reply, ReplySettings, opens_thought
from ..verdict_watch import verdict_tokens
from .decoding import (
    Processor,
    Sampler,
    decode,
    decode_together,
    sampling_processors,
    seeded_globally,
)
from .loading import BaseSettings
from .other_families import controls_of, model_inputs
from .reply_listener import ReplyListener
from .shared_base import SharedBase, shared_base


class TransformersChat:
    """A base model with an adapter or without. `model` is the torch module, which a host may move between
    devices."""

    def __init__(
        self, base: SharedBase, adapter: str | None = None, trained: TrainedWith | None = None
    ) -> None:
        self.base = base
        self.adapter = adapter
        self.trained = trained or TrainedWith(base.folder.name)
        self._prompt_set = self.trained.prompt_set
        self.processors: list[Processor] = []
        """Given the ids so far `(1, length)` and the scores `(1, vocabulary)` of the next token, each returns
        the scores."""
        tokenizer = base.processor.tokenizer
        self._verdict_tokens = verdict_tokens(tokenizer)
        self._ends = _end_tokens(base)
        # Control tokens written out in a user's text would be taken for the real ones.
        self._controls = controls_of(base.processor, base.is_tested)

    @property
    def model(self) -> Any:
        return self.base.model

    @property
    def weights(self) -> object:
        """What the agent's weights are, for telling whether two agents have the same."""
        return self.base

    def offload(self) -> None:
        """Free the device until the next reply."""
        self.base.offload()

    @property
    def is_settled(self) -> bool:
        return self.base.is_settled

    @property
    def identity(self) -> str:
        """What made a reply. It says what the check at first use left on, and has the check made if there was
        none yet."""
        parts = [f"transformers:{self.base.folder.name}", self.base.digest, self.base.dtype]
        if self.base.settings.quantization:
            parts.append(self.base.settings.quantization)
        # Answers that are read several tokens at a time round differently.
        if drafts := self.base.effective_settings(self.adapter).prompt_lookup_tokens:
            parts.append(f"drafts={drafts}")
        if self.base.effective_settings(self.adapter).prefix_tokens:
            parts.append("prefix")
        parts += [f"adapter={self.adapter}"] if self.adapter else []
        parts += [f"prompts={self._prompt_set.digest}"] if self._prompt_set else []
        return ":".join(parts)

    @property
    def prompt_set(self) -> PromptSet | None:
        return self._prompt_set

    @property
    def constrains_replies(self) -> bool:
        from .grammar_processor import grammar_is_installed

        return grammar_is_installed()

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Answer the conversation on the device where the model is now. Raises ChatError, Cancelled."""
        with self._ready() as model:
            prompt, pictures = self._prompt(messages, settings)
            engine = self.base.engine()
            if engine is None:
                return self._generate(model, prompt, pictures, settings, on_token)
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
        """A reply to each message, in the same passes where they differ in nothing but pictures of the same
        shapes; else, and above temperature 0, one after another. `on_token` gets no text, since nobody could
        tell whose it is. Raises ChatError, Cancelled."""

        def hear(text: str) -> None:
            if on_token is not None:
                on_token("")

        with self._ready() as model:
            asked = [self._prompt([message], settings) for message in messages]
            prompts, shown = {prompt for prompt, _ in asked}, [pictures for _, pictures in asked]
            engine = self.base.engine()
            if engine is not None and len(prompts) == 1 and settings.temperature == 0:
                prompt = prompts.pop()
                batch = engine.read_together(model, self.adapter, prompt, shown)
                if batch is not None:
                    room = self._room(batch.ids.shape[1], settings)
                    samplers = [self._sampler(prompt, settings, room, hear) for _ in messages]
                    decode_together(batch, samplers, room)
                    return [sampler.listener.reply() for sampler in samplers]
        return [self.reply([message], settings, hear) for message in messages]

    @contextmanager
    def _ready(self) -> Iterator[Any]:
        """The model with the adapter, locked; raises ChatError for what fails inside."""
        import torch

        with (
            boundary(ChatError, f"Model {self.base.folder.name!r}"),
            torch.inference_mode(),
            self.base.selected(self.adapter) as model,
        ):
            yield model

    def _room(self, read: int, settings: ReplySettings) -> int:
        """Tokens that an answer may have after so many of the prompt. Raises ChatError if there is room for
        none."""
        context = self.base.context
        if read >= context:
            raise ChatError(
                f"The question has {read} tokens, "
                f"and the model {self.base.folder.name!r} can read {context}.",
                "Show it fewer or smaller images (max pixels), or shorten the request.",
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
        listener = ReplyListener(
            tokenizer, self._ends, self._verdict_tokens, settings, thinking, on_token, held
        )
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
        from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

        inputs = model_inputs(self.base.processor, prompt, pictures, model)
        room = self._room(inputs["input_ids"].shape[1], settings)
        sampler = self._sampler(prompt, settings, room, on_token)
        sampling = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        config = GenerationConfig(
            max_new_tokens=room,
            eos_token_id=list(self._ends),
            pad_token_id=self._ends[0],
            use_cache=True,
            **({"do_sample": False} if sampler.seed is None else sampling),
        )
        with seeded_globally(model, sampler.seed):
            model.generate(
                **inputs,
                generation_config=config,
                logits_processor=LogitsProcessorList(
                    cast(Any, [sampler.listener.logits, *sampler.processors])
                ),
                stopping_criteria=StoppingCriteriaList(cast(Any, [sampler.listener])),
            )
        return sampler.listener.reply()

    def _prompt(self, messages: Sequence[Message], settings: ReplySettings) -> tuple[str, list[Picture]]:
        """The conversation as text, one image token for each picture, and the pictures in their order."""
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


def _end_tokens(base: SharedBase) -> tuple[int, ...]:
    own = base.model.generation_config.eos_token_id
    ends = [own] if isinstance(own, int) else list(own or ())
    if not ends and base.processor.tokenizer.eos_token_id is not None:
        ends = [base.processor.tokenizer.eos_token_id]
    if not ends:
        raise ChatError(f"Checkpoint {str(base.folder)!r} does not say which token ends a reply.")
    return tuple(ends)


OPTIONS = BaseSettings
"""Whose fields `open` takes as options."""


def open(
    argument: str,
    *,
    adapter: str | None = None,
    merge: bool = False,
    share: bool = True,
    download: bool = False,
    **options: Any,
) -> TransformersChat:
    """Open a checkpoint of a model that sees images and writes: a folder, or a hub id in the local cache
    (`download` fetches it).

    `adapter`: a LoRA folder; `merge` adds it to weights of its own instead of laying it over shared ones.
    `share` False loads a base of its own. `options`: fields of `BaseSettings`. An adapter's record of
    what it was trained with wins over the base's. Raises ChatError, SettingsError.
    """
    try:
        settings = BaseSettings(**options)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(map(str, fault["loc"]))
        value = str(fault["input"])[:100]
        raise SettingsError(f"Chat backend 'transformers', option {name}={value}: {fault['msg']}.") from error
    folder = find_checkpoint(argument, download, untested=True)
    if merge and adapter is None:
        raise SettingsError("There is no adapter to merge.", "Name one, or leave merging out.")
    adapter_folder = Path(adapter).expanduser() if adapter is not None else None
    base = shared_base(folder, settings, share, adapter_folder if merge else None)
    trained = trained_with(folder)
    if adapter_folder is None:
        return TransformersChat(base, None, trained)
    name = None if merge else base.add_adapter(adapter_folder)
    return TransformersChat(base, name, trained_with(adapter_folder, adapter=True).over(trained))
