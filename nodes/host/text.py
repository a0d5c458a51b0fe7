"""Text generation with the host's text encoders, in hosts that support it.

The abilities of a CLIP are read from the object, not from a version. A text encoder without vision ignores
images silently, so the number of images is checked in its tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import comfy.model_management as memory
import torch

from ...backend.core.errors import Cancelled, ChatError, SettingsError
from ...backend.core.seams.chat_model import ReplySettings
from .progress import STOPPED

WRITING = ("tokenize", "generate", "decode")


@dataclass(frozen=True)
class GeneratedText:
    """Generated text, its number of tokens (0: unknown), and whether it reached the maximum length."""

    text: str
    tokens: int
    is_full: bool


def check_writes(clip: Any) -> None:
    """Check that a CLIP can generate text about images.

    Raises:
        SettingsError: It cannot. The message has the reason.
    """
    lacking = [name for name in WRITING if not callable(getattr(clip, name, None))]
    if "generate" in lacking and not _host_writes():
        raise SettingsError(
            "This ComfyUI cannot generate text with a text encoder.",
            "Update ComfyUI, or use Load Agent instead.",
        )
    reason = "it has no " + " and no ".join(lacking) if lacking else _why_not(clip)
    if reason:
        raise SettingsError(
            f"This text encoder cannot be used as an agent: {reason}.",
            "Load Qwen3-VL, Qwen3.5 or Gemma 4 with CLIPLoader, or use Load Agent instead.",
        )


def chat_marks(clip: Any) -> bool:
    """Return whether the text encoder was trained with ChatML turns and Qwen's image tokens."""
    tokenizer = getattr(clip, "tokenizer", None)
    with_images = getattr(tokenizer, "llama_template_images", "")
    template = getattr(tokenizer, "llama_template", "") or ""
    marked = "<|image_pad|>" in f"{with_images}{template}" or hasattr(
        _transformer(clip), "build_image_inputs"
    )
    return template.startswith("<|im_start|>") and marked


def write_text(
    clip: Any,
    prompt: str,
    images: Sequence[torch.Tensor],
    ready: bool,
    settings: ReplySettings,
) -> GeneratedText:
    """Generate text with a CLIP.

    Args:
        clip: The text encoder.
        prompt: The prompt.
        images: Images, each `(1, height, width, channels)`.
        ready: The prompt has its final form, so the CLIP's own template is skipped.
        settings: Length and sampling.

    Raises:
        Cancelled: The user pressed cancel.
        ChatError: The text encoder does not see all images.
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
    tokens = 0 if isinstance(written, str) or not isinstance(written, Sized) else len(written)
    return GeneratedText(clip.decode(written), tokens, tokens >= settings.limit)


def seen(tokens: Any) -> int:
    """Return the number of images among the tokens of a text."""
    if isinstance(tokens, Mapping):
        return max((seen(part) for part in tokens.values()), default=0)
    if isinstance(tokens, tuple):
        return int(bool(tokens) and isinstance(tokens[0], Mapping) and tokens[0].get("type") == "image")
    return sum(seen(part) for part in tokens) if isinstance(tokens, list) else 0


def _host_writes() -> bool:
    import comfy.sd

    return callable(getattr(comfy.sd.CLIP, "generate", None))


def _why_not(clip: Any) -> str:
    """Return why the model of a CLIP cannot generate text about images, "" if it can or if that is unknown.

    Newer hosts have `generate` on every CLIP and SDClipModel. So the transformer inside is checked: its
    `generate`, its vision part, and in its configuration the stop tokens and a complete output side.
    """
    if getattr(clip, "cond_stage_model", None) is None:
        return ""
    inner = _inner(clip)
    transformer = _transformer(clip)
    if transformer is None:
        return "" if callable(getattr(inner, "generate", None)) else "its model has no generate"
    if not callable(getattr(transformer, "generate", None)):
        return "its model has no generate"
    if not callable(getattr(transformer, "preprocess_embed", None)):
        return "it has no vision, and an agent must see images"
    if hasattr(transformer, "build_image_inputs") and _base_generate(inner):
        return "its generate function for images is replaced by the one for text"
    config = getattr(getattr(transformer, "model", None), "config", None)
    if config is None:
        return ""
    if not getattr(config, "stop_tokens", None):
        return "ComfyUI does not know its stop token"
    if getattr(config, "final_norm", True) is False:
        return "its last layers are removed, since conditioning does not need them"
    if getattr(config, "lm_head", False) and not hasattr(transformer.model, "lm_head"):
        return "its output layer is missing"
    return ""


def _inner(clip: Any) -> Any:
    """Return the SDClipModel, or its replacement, of a CLIP."""
    wrapper = getattr(clip, "cond_stage_model", None)
    return getattr(wrapper, str(getattr(wrapper, "clip", "")), wrapper)


def _transformer(clip: Any) -> Any:
    return getattr(_inner(clip), "transformer", None)


def _base_generate(inner: Any) -> bool:
    """Return whether the encoder uses the generate function of encoders without images."""
    import comfy.sd1_clip

    base = getattr(comfy.sd1_clip.SDClipModel, "generate", None)
    return base is not None and getattr(type(inner), "generate", None) is base
