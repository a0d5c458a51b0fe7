"""A Qwen3-VL checkpoint in this process, by transformers.

Decision: `generate` decodes, not a loop of our own: at the size of the tiny world's agents (2 M weights, one CPU thread)
it takes 1.1 ms a token against 0.95 for a bare loop. One object listens in while it runs (raw logits
before, the token after) and does all that is special: streaming, cancelling, P(True), stopping at a True verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from ..errors import ChatError, boundary
from ..pictures import Picture
from ..prompts import PromptSet, prompt_set_of
from .checkpoints import find_checkpoint
from .decoding import VerdictWatch, probability_of_true, verdict_tokens
from .pixels import area_limit, scaled_down
from .protocol import Message, Reply, ReplySettings
from .shared_base import SharedBase, shared_base


class TransformersChat:
    """A base model with an adapter or without. `model` is the torch module, which a host may move between devices."""

    def __init__(
        self, base: SharedBase, adapter: str | None = None, prompt_set: PromptSet | None = None
    ) -> None:
        self.base = base
        self._adapter = adapter
        self._prompt_set = prompt_set
        tokenizer = base.processor.tokenizer
        self._verdict_tokens = verdict_tokens(tokenizer)
        self._ends = _end_tokens(base)
        # Control tokens written out in a user's text would be taken for the real ones.
        self._controls = [token for token in map(str, tokenizer.all_special_tokens) if token.startswith("<|")]

    @property
    def model(self) -> Any:
        return self.base.model

    @property
    def identity(self) -> str:
        parts = [f"transformers:{self.base.folder.name}", self.base.digest, self.base.dtype]
        parts += [self.base.quantization] if self.base.quantization else []
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
        from transformers import LogitsProcessorList, StoppingCriteriaList

        with (
            boundary(ChatError, f"Model {self.base.folder.name!r}"),
            torch.inference_mode(),
            self.base.selected(self._adapter) as model,
        ):
            device = next(model.parameters()).device
            prompt, inputs = self._inputs(messages)
            inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
            listener = _listener(self, settings, prompt, on_token)
            forked = [device] if device.type == "cuda" else []
            with torch.random.fork_rng(devices=forked, enabled=settings.temperature > 0):
                if settings.temperature > 0:
                    torch.manual_seed(settings.seed)
                model.generate(
                    **inputs,
                    generation_config=self._generation_config(settings),
                    logits_processor=LogitsProcessorList([listener.before]),
                    stopping_criteria=StoppingCriteriaList([listener.after]),
                )
            return listener.reply()

    def _inputs(self, messages: Sequence[Message]) -> tuple[str, dict[str, Any]]:
        """The prompt as text, and the model's inputs: token ids of shape (1, length), image patches and grids."""
        area = area_limit(messages)
        conversation, images = [], []
        for message in messages:
            content = []
            for part in message.content:
                if isinstance(part, Picture):
                    images.append(scaled_down(part, area).image)
                    content.append({"type": "image"})
                else:
                    content.append({"type": "text", "text": self._as_words(part)})
            conversation.append({"role": message.role, "content": content})
        processor = self.base.processor
        prompt = processor.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
        inputs = processor(text=[prompt], images=images or None, return_tensors="pt")
        return prompt, dict(inputs)

    def _as_words(self, text: str) -> str:
        for control in self._controls:
            text = text.replace(control, control.replace("<|", "< |"))
        return text

    def _generation_config(self, settings: ReplySettings) -> Any:
        from transformers import GenerationConfig

        sampling = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        return GenerationConfig(
            max_new_tokens=settings.max_tokens,
            eos_token_id=list(self._ends),
            pad_token_id=self._ends[0],
            use_cache=True,
            **(sampling if settings.temperature > 0 else {"do_sample": False}),
        )


def _listener(
    chat: TransformersChat, settings: ReplySettings, prompt: str, on_token: Callable[[str], None] | None
) -> Any:
    """Made in a function because its base classes are transformers', which is imported late."""
    import torch
    from transformers import LogitsProcessor, StoppingCriteria

    tokenizer = chat.base.processor.tokenizer
    true_ids, false_ids = chat._verdict_tokens
    verdict_ids = frozenset(true_ids + false_ids)

    class Before(LogitsProcessor):
        """Sees the raw logits of the next token, and applies the temperature."""

        logits: Any = None

        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            self.logits = scores
            return scores / settings.temperature if settings.temperature > 0 else scores

    class After(StoppingCriteria):
        """Sees the token that was chosen, and says whether it is the last."""

        def __init__(self, before: Before) -> None:
            self.before = before
            self.tokens = 0
            self.parts: list[str] = []
            self.pending: list[int] = []
            self.finish: Literal["end", "length", "verdict"] = "length"
            self.probability: float | None = None
            thinking = prompt.rstrip().endswith("<think>")
            self.watch = VerdictWatch(thinking) if settings.watch_verdict else None

        def __call__(self, input_ids: torch.Tensor, scores: Any, **options: Any) -> torch.Tensor:
            token = int(input_ids[0, -1])
            self.tokens += 1
            if token in chat._ends:
                self.finish = "end"
                self.flush()
                return self.answer(True)
            self.pending.append(token)
            piece = tokenizer.decode(
                self.pending, skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
            if piece.endswith("\ufffd") and len(self.pending) < 8:
                # The token ends within a character; the next one completes it.
                return self.answer(False)
            self.pending.clear()
            return self.answer(self.take(piece, token))

        def take(self, piece: str, token: int) -> bool:
            self.parts.append(piece)
            if on_token is not None:
                on_token(piece)
            if self.watch is None:
                return False
            if self.watch.add(piece) and token in verdict_ids:
                row = self.before.logits[0].float()
                self.probability = probability_of_true(
                    row[list(true_ids)].tolist(), row[list(false_ids)].tolist()
                )
            if self.watch.verdict:
                self.finish = "verdict"
            return bool(self.watch.verdict)

        def flush(self) -> None:
            if self.pending:
                piece = tokenizer.decode(self.pending, skip_special_tokens=False)
                self.pending.clear()
                self.take(piece, -1)

        def answer(self, stop: bool) -> torch.Tensor:
            return torch.full((1,), stop, dtype=torch.bool, device=self.before.logits.device)

    class Listener:
        before = Before()
        after = After(before)

        def reply(self) -> Reply:
            self.after.flush()
            return Reply(
                text="".join(self.after.parts),
                tokens=self.after.tokens,
                probability=self.after.probability,
                finish=self.after.finish,
            )

    return Listener()


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
) -> TransformersChat:
    """Open a Qwen3-VL checkpoint: a folder, or a hub id in the local cache (`download` fetches it).

    `adapter`: a LoRA folder. `dtype`: auto (the checkpoint's), bfloat16, float16, float32. `quantization`: 8bit, 4bit.
    `share` False keeps a base of its own. An adapter's prompt set wins over the base's. Raises ChatError, SettingsError.
    """
    folder = find_checkpoint(argument, download)
    base = shared_base(folder, dtype, device, quantization, share)
    prompt_set = prompt_set_of(folder)
    name = None
    if adapter is not None:
        adapter_folder = Path(adapter).expanduser()
        name = base.add_adapter(adapter_folder)
        prompt_set = prompt_set_of(adapter_folder) or prompt_set
    return TransformersChat(base, name, prompt_set)
