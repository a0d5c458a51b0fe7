"""A Qwen3-VL checkpoint in this process, by transformers.

Decision: a loop of our own decodes (engine/engine.py), and `generate` where that is switched off or was found
inexact. What is special (streaming, cancelling, P(True), the early stop) is done by listening in, in the same
way for both (reply_listener.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ...checkpoints.checkpoint import find_checkpoint
from ...errors import ChatError, SettingsError, boundary
from ...pictures import Picture
from ...prompts import PromptSet, prompt_set_of
from ..engine.settings import EngineSettings
from ..image_limits import scaled_down
from ..protocol import Message, Reply, ReplySettings
from ..sampling import Narrowed
from ..verdict_watch import verdict_tokens
from .reply_listener import ReplyListener
from .shared_base import SharedBase, shared_base

if TYPE_CHECKING:
    from ..engine.sequence import Answer, Answers

Processor = Callable[[Any, Any], Any]
_drawing_tokens = threading.Lock()

Heard = tuple[ReplyListener, list[Processor]]
"""Who listens to one reply, and what changes its scores."""


class TransformersChat:
    """A base model with an adapter or without. `model` is the torch module, which a host may move between
    devices."""

    def __init__(
        self, base: SharedBase, adapter: str | None = None, prompt_set: PromptSet | None = None
    ) -> None:
        self.base = base
        self._adapter = adapter
        self._prompt_set = prompt_set
        self.processors: list[Processor] = []
        """Given the ids so far `(1, length)` and the scores `(1, vocabulary)` of the next token, each returns
        the scores."""
        tokenizer = base.processor.tokenizer
        self._verdict_tokens = verdict_tokens(tokenizer)
        self._ends = _end_tokens(base)
        # Control tokens written out in a user's text would be taken for the real ones.
        self._controls = [token for token in map(str, tokenizer.all_special_tokens) if token.startswith("<|")]

    @property
    def model(self) -> Any:
        return self.base.model

    @property
    def weights(self) -> object:
        """What the agent's weights are, for telling whether two agents have the same."""
        return self.base

    def leave(self) -> None:
        """Free the device until the next reply."""
        self.base.leave()

    @property
    def is_settled(self) -> bool:
        return self.base.is_settled

    @property
    def identity(self) -> str:
        """What made a reply. It says what the check at first use left on, and has the check made if there was
        none yet."""
        parts = [f"transformers:{self.base.folder.name}", self.base.digest, self.base.dtype]
        parts += [self.base.quantization] if self.base.quantization else []
        # Prompts read in two pieces, and answers read several tokens at a time, round differently
        # (engine/engine.py).
        levers = self.base.settled_levers(self._adapter)
        parts += ["heads"] if levers.own_loop and levers.prefix_bytes else []
        static = levers.static_cache if levers.own_loop else "off"
        drafts = levers.draft_tokens if levers.own_loop and static == "off" else 0
        parts += [f"drafts={drafts}"] if drafts else []
        parts += [f"static={static}"] if static != "off" else []
        parts += [f"adapter={self._adapter}"] if self._adapter else []
        parts += [f"prompts={self._prompt_set.digest}"] if self._prompt_set else []
        return ":".join(parts)

    @property
    def prompt_set(self) -> PromptSet | None:
        return self._prompt_set

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Answer the conversation on the device where the model is now. Raises ChatError, Cancelled."""
        import torch

        with (
            boundary(ChatError, f"Model {self.base.folder.name!r}"),
            torch.inference_mode(),
            self.base.selected(self._adapter) as model,
        ):
            prompt, pictures = self._prompt(messages, settings)
            with _sampling(model, settings):
                own = self.base.decoding_engine()
                if own is None:
                    return self._generate(model, prompt, pictures, settings, on_token)
                answer = own.read(model, self._adapter, prompt, pictures, settings.limit)
                room = self._room(answer.ids.shape[1], settings)
                listener, processors = self._listening(prompt, settings, room, on_token)
                _decode(answer, settings, room, listener, processors)
            return listener.reply()

    def reply_together(self, messages: Sequence[Message], settings: ReplySettings) -> list[Reply]:
        """A reply to each message, in the same passes where they differ in nothing but pictures of the same
        shapes; else, and where tokens are drawn, one after another. Raises ChatError."""
        import torch

        with (
            boundary(ChatError, f"Model {self.base.folder.name!r}"),
            torch.inference_mode(),
            self.base.selected(self._adapter) as model,
        ):
            asked = [self._prompt([message], settings) for message in messages]
            own = self.base.decoding_engine()
            prompts = {prompt for prompt, _ in asked}
            if own is not None and len(prompts) == 1 and settings.temperature == 0:
                prompt, shown = prompts.pop(), [pictures for _, pictures in asked]
                answers = own.read_together(model, self._adapter, prompt, shown)
                if answers is not None:
                    room = self._room(answers.ids.shape[1], settings)
                    heard = [self._listening(prompt, settings, room, None) for _ in messages]
                    _decode_together(answers, settings, room, heard)
                    return [listener.reply() for listener, _ in heard]
        return [self.reply([message], settings) for message in messages]

    def _room(self, read: int, settings: ReplySettings) -> int:
        """Tokens that an answer may have after so many of the prompt. Raises ChatError if there is room for
        none."""
        context = self.base.context
        if read >= context:
            raise ChatError(
                (
                    f"The question has {read} tokens, and the model {self.base.folder.name!r} can read "
                    f"{context}."
                ),
                "Show it fewer or smaller images (max pixels), or shorten the request.",
            )
        return min(settings.limit, context - read)

    def _listening(
        self, prompt: str, settings: ReplySettings, room: int, on_token: Callable[[str], None] | None
    ) -> Heard:
        thinking = prompt.rstrip().endswith("<think>")
        tokenizer = self.base.processor.tokenizer
        listener = ReplyListener(tokenizer, self._ends, self._verdict_tokens, settings, thinking, on_token)
        return listener, [*self._holding(settings, room, thinking), *self.processors, Narrowed(settings)]

    def _holding(self, settings: ReplySettings, room: int, thinking: bool) -> list[Processor]:
        """What holds the reply to its grammar, if that is asked for and possible."""
        from .grammar_processor import grammar_is_installed

        if settings.grammar is None or not grammar_is_installed():
            return []
        tokens = self.base.grammar_tokens(self._ends)
        return [tokens.held(settings.grammar, thinking, room)]

    def _generate(
        self,
        model: Any,
        prompt: str,
        pictures: Sequence[Picture],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None,
    ) -> Reply:
        from transformers import LogitsProcessorList, StoppingCriteriaList

        device = next(model.parameters()).device
        inputs = self.base.processor(
            text=[prompt], images=[picture.image for picture in pictures] or None, return_tensors="pt"
        )
        room = self._room(inputs["input_ids"].shape[1], settings)
        listener, processors = self._listening(prompt, settings, room, on_token)
        model.generate(
            **{name: tensor.to(device) for name, tensor in inputs.items()},
            generation_config=self._generation_config(settings, room),
            logits_processor=LogitsProcessorList(cast(Any, [listener.logits, *processors])),
            stopping_criteria=StoppingCriteriaList(cast(Any, [listener])),
        )
        return listener.reply()

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
                    content.append({"type": "text", "text": self._as_words(part)})
            conversation.append({"role": message.role, "content": content})
        processor = self.base.processor
        prompt = processor.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
        return prompt, pictures

    def _as_words(self, text: str) -> str:
        for control in self._controls:
            text = text.replace(control, control.replace("<|", "< |"))
        return text

    def _generation_config(self, settings: ReplySettings, room: int) -> Any:
        from transformers import GenerationConfig

        sampling = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        return GenerationConfig(
            max_new_tokens=room,
            eos_token_id=list(self._ends),
            pad_token_id=self._ends[0],
            use_cache=True,
            **(sampling if settings.temperature > 0 else {"do_sample": False}),
        )


@contextmanager
def _sampling(model: Any, settings: ReplySettings) -> Iterator[None]:
    """Random numbers from the settings' seed inside the block, where any are needed; the process's own are
    left alone. The source of them is the process's, so one model draws from it at a time."""
    import torch

    device = next(model.parameters()).device
    forked = [device] if device.type == "cuda" else []
    alone = _drawing_tokens if settings.temperature > 0 else nullcontext()
    with alone, torch.random.fork_rng(devices=forked, enabled=settings.temperature > 0):
        if settings.temperature > 0:
            torch.manual_seed(settings.seed)
        yield


def _decode(
    answer: Answer,
    settings: ReplySettings,
    room: int,
    listener: ReplyListener,
    processors: Sequence[Processor],
) -> None:
    for number in range(room):
        chosen = _chosen(answer.ids, answer.logits, settings, listener, processors)
        if listener.take(chosen) or number == room - 1:
            return
        answer.add(chosen)


def _chosen(
    ids: Any, logits: Any, settings: ReplySettings, listener: ReplyListener, processors: Sequence[Processor]
) -> int:
    """The next token: the likeliest, or one drawn at the settings' temperature."""
    import torch

    scores = listener.logits(ids, logits)
    for process in processors:
        scores = process(ids, scores)
    if settings.temperature > 0:
        return int(torch.multinomial(scores.softmax(dim=-1), num_samples=1))
    return int(scores.argmax(dim=-1))


def _decode_together(answers: Answers, settings: ReplySettings, room: int, heard: Sequence[Heard]) -> None:
    """Every answer to its own end; who has ended is fed what it said last and not listened to."""
    said, going = [0] * len(heard), set(range(len(heard)))
    for number in range(room):
        for index in sorted(going):
            listener, processors = heard[index]
            row = slice(index, index + 1)
            said[index] = _chosen(answers.ids[row], answers.logits[row], settings, listener, processors)
            if listener.take(said[index]):
                going.remove(index)
        if not going or number == room - 1:
            return
        answers.add(said)


def _end_tokens(base: SharedBase) -> tuple[int, ...]:
    own = base.model.generation_config.eos_token_id
    ends = [own] if isinstance(own, int) else list(own or ())
    if not ends and base.processor.tokenizer.eos_token_id is not None:
        ends = [base.processor.tokenizer.eos_token_id]
    if not ends:
        raise ChatError(f"Checkpoint {str(base.folder)!r} does not say which token ends a reply.")
    return tuple(ends)


def open(
    argument: str,
    *,
    adapter: str | None = None,
    dtype: str = "auto",
    device: str = "auto",
    quantization: str | None = None,
    download: bool = False,
    share: bool = True,
    merge: bool = False,
    levers: EngineSettings = EngineSettings(),  # noqa: B008 - frozen
) -> TransformersChat:
    """Open a Qwen3-VL checkpoint: a folder, or a hub id in the local cache (`download` fetches it).

    `adapter`: a LoRA folder. `dtype`: auto (the checkpoint's), bfloat16, float16, float32. `quantization`:
    8bit, 4bit, fp8. `share` False keeps a base of its own. `merge`: the adapter is added to weights of its
    own instead of laid over shared ones. `levers`: how work is saved. An adapter's prompt set wins over the
    base's. Raises ChatError, SettingsError.
    """
    folder = find_checkpoint(argument, download)
    if merge and adapter is None:
        raise SettingsError("There is no adapter to merge.", "Name one, or leave merging out.")
    merged = Path(adapter).expanduser() if adapter is not None and merge else None
    base = shared_base(folder, dtype, device, quantization, share, levers, merged)
    prompt_set = prompt_set_of(folder)
    name = None
    if adapter is not None:
        adapter_folder = Path(adapter).expanduser()
        name = None if merge else base.add_adapter(adapter_folder)
        prompt_set = prompt_set_of(adapter_folder) or prompt_set
    return TransformersChat(base, name, prompt_set)
