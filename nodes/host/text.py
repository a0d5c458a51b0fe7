"""Text written by the host's own text encoders, where the host is new enough to have them write.

Decision: what a CLIP can do is found out from the object, not from a version. A text encoder that knows no
images swallows them without a word, so what became of them is read from its tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import comfy.model_management as memory
import torch

from ...backend.chat.protocol import ReplySettings
from ...backend.errors import Cancelled, ChatError, SettingsError
from .interrupt import STOPPED

WRITING = ("tokenize", "generate", "decode")


def check_writes(clip: Any) -> None:
    """Raise SettingsError unless this CLIP can generate text."""
    lacking = [name for name in WRITING if not callable(getattr(clip, name, None))]
    if "generate" in lacking and not _host_writes():
        raise SettingsError(
            "This ComfyUI has no text encoders that can write.", "Update ComfyUI, or use Load Agent instead."
        )
    if lacking or not _model_writes(clip):
        raise SettingsError(
            "This text encoder cannot write.",
            "Load a vision-language one (Qwen3-VL) with CLIPLoader, or use Load Agent instead.",
        )


def chat_marks(clip: Any) -> bool:
    """Whether the text encoder was taught with ChatML turns and Qwen's marks for images."""
    tokenizer = getattr(clip, "tokenizer", None)
    with_images = getattr(tokenizer, "llama_template_images", "")
    template = getattr(tokenizer, "llama_template", "") or ""
    return template.startswith("<|im_start|>") and "<|image_pad|>" in f"{with_images}{template}"


def write_text(
    clip: Any,
    prompt: str,
    images: Sequence[torch.Tensor],
    ready: bool,
    settings: ReplySettings,
) -> str:
    """The text that a CLIP writes after a prompt and images `[1, H, W, C]`; `ready` prompts skip its own
    template.

    Raises Cancelled if the user stops it, ChatError if it does not see the images.
    """
    tokens = clip.tokenize(prompt, images=list(images), skip_template=ready, min_length=1, thinking=True)
    if seen(tokens) < len(images):
        raise ChatError(
            f"This text encoder saw {seen(tokens)} of {len(images)} images.",
            "Load a vision-language one (Qwen3-VL), or use Load Agent instead.",
        )
    drawn = settings.temperature > 0
    sampling = (
        settings.model_dump(include={"temperature", "top_k", "top_p"}) | {"min_p": 0.0} if drawn else {}
    )
    try:
        written = clip.generate(
            tokens,
            do_sample=drawn,
            max_length=settings.limit,
            repetition_penalty=1.0,
            seed=settings.seed,
            **sampling,
        )
    except memory.InterruptProcessingException as interrupt:
        memory.interrupt_current_processing()
        raise Cancelled(STOPPED) from interrupt
    return clip.decode(written)


def seen(tokens: Any) -> int:
    """How many images stand among the tokens of a text."""
    if isinstance(tokens, Mapping):
        return max((seen(part) for part in tokens.values()), default=0)
    if isinstance(tokens, tuple):
        return int(bool(tokens) and isinstance(tokens[0], Mapping) and tokens[0].get("type") == "image")
    return sum(seen(part) for part in tokens) if isinstance(tokens, list) else 0


def _host_writes() -> bool:
    import comfy.sd

    return callable(getattr(comfy.sd.CLIP, "generate", None))


def _model_writes(clip: Any) -> bool:
    """The host gives every CLIP a `generate`, which only some of the models behind it have."""
    model = getattr(clip, "cond_stage_model", None)
    if model is None:
        return True
    inner = getattr(model, str(getattr(model, "clip", "")), None)
    return any(callable(getattr(one, "generate", None)) for one in (model, inner))
