"""A Qwen3-VL checkpoint in this process, by transformers.

Decision: `generate` decodes, not a loop of our own: at the size of the tiny world's agents (2 M weights, one CPU thread)
it takes 1.1 ms a token against 0.95 for a bare loop. What is special (streaming, cancelling, P(True), the early stop)
is done by listening in (listening.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from ..errors import ChatError, boundary
from ..pictures import Picture
from ..prompts import PromptSet, prompt_set_of
from .checkpoints import find_checkpoint
from .decoding import verdict_tokens
from .listening import ReplyListener
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
            listener = ReplyListener(
                self.base.processor.tokenizer,
                self._ends,
                self._verdict_tokens,
                settings,
                prompt.rstrip().endswith("<think>"),
                on_token,
            )
            forked = [device] if device.type == "cuda" else []
            with torch.random.fork_rng(devices=forked, enabled=settings.temperature > 0):
                if settings.temperature > 0:
                    torch.manual_seed(settings.seed)
                model.generate(
                    **inputs,
                    generation_config=self._generation_config(settings),
                    logits_processor=LogitsProcessorList(cast(Any, [listener.logits])),
                    stopping_criteria=StoppingCriteriaList(cast(Any, [listener])),
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
