"""Caches prompt embeddings and source latents between images, for diffusers pipelines and ComfyUI's models.

The two calls that all pipelines make (`encode_prompt`, `vae.encode`) are answered from the cache if their
arguments are equal, text by text and pixel by pixel. The code depends on no pipeline class. A VAE returns the
distribution of the latents and not a sample, so random numbers are unaffected. Calls whose arguments cannot
be compared are not cached. Entries stay on their device, since they are small compared with the weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from pydantic import Field

from ...core.machine.byte_lru import ByteLRU, tensor_bytes
from ...core.machine.counters import count
from ...core.types import Value

MEBIBYTE = 1024 * 1024


class EncodingCacheSettings(Value):
    """Size of a generator's cache. It never affects an image."""

    encodings_bytes: int = Field(
        default=128 * MEBIBYTE,
        ge=0,
        description="Cache for prompt embeddings and image latents, in bytes. "
        "0 disables it. FLUX.2 klein needs 8 MB per prompt and 10 MB per "
        "megapixel of an image.",
    )


class EncodingCache:
    """The cache of one generator. Not thread-safe.

    `weights` names what currently changes the text encoder's weights, such as a LoRA.
    """

    def __init__(self, settings: EncodingCacheSettings) -> None:
        self.weights = ""
        self._entries: ByteLRU[Hashable, Any] = ByteLRU(settings.encodings_bytes, tensor_bytes)

    def text(self, name: str, encode: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return the text encoder's result for these arguments, from the cache if possible.

        Args:
            name: Name of the encoder, part of the key.
            encode: The encoder.
            *arguments: Its arguments.
            **options: Its keyword arguments.
        """
        return self._answer("text_encodes", "text_kept", f"{name}{self.weights}", encode, arguments, options)

    def image(self, name: str, encode: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return the image encoder's result for these arguments, from the cache if possible.

        Args:
            name: Name of the encoder, part of the key.
            encode: The encoder.
            *arguments: Its arguments.
            **options: Its keyword arguments.
        """
        return self._answer("image_encodes", "latents_kept", name, encode, arguments, options)

    def attach(self, pipeline: Any) -> None:
        """Make a diffusers pipeline use this cache for its prompts and images."""
        if hasattr(pipeline, "encode_prompt"):
            pipeline.encode_prompt = partial(self.text, type(pipeline).__name__, pipeline.encode_prompt)
        vae = getattr(pipeline, "vae", None)
        # A pipeline and its image-to-image counterpart share the VAE.
        if vae is not None and "encode" not in vars(vae):
            vae.encode = partial(self.image, "vae", vae.encode)

    def _answer(
        self,
        made: str,
        found: str,
        name: str,
        encode: Callable[..., Any],
        arguments: tuple[Any, ...],
        options: dict[str, Any],
    ) -> Any:
        parts = compared(arguments), compared(sorted(options.items()))
        key = None if None in parts else (made, name, parts)
        cached = self._entries.get(key) if key else None
        if cached is not None:
            count(**{found: 1})
            return _own_copy(cached)
        count(**{made: 1})
        encoded = encode(*arguments, **options)
        if key:
            self._entries.put(key, _own_copy(encoded))
        return encoded


def compared(value: Any) -> Hashable | None:
    """Return a key that is equal for equal arguments, with tensors and images by digest.

    None if the value cannot be compared.
    """
    import torch
    from PIL import Image

    if value is None or isinstance(value, (str, int, float, bool)):
        return type(value).__name__, value
    if isinstance(value, (torch.device, torch.dtype)):
        return str(value)
    if isinstance(value, Image.Image):
        return value.mode, value.size, hashlib.blake2b(value.tobytes(), digest_size=20).digest()
    if isinstance(value, torch.Tensor):
        numbers = value.detach().contiguous().flatten().view(torch.uint8).cpu().numpy()
        digest = hashlib.blake2b(numbers.tobytes(), digest_size=20).digest()
        # The memory layout of a tensor affects the last bit of a convolution.
        return str(value.dtype), str(value.device), tuple(value.shape), value.stride(), digest
    if isinstance(value, (list, tuple)):
        parts = tuple(compared(part) for part in value)
        return None if None in parts else (type(value).__name__, parts)
    return None


def _own_copy(value: Any) -> Any:
    """Return a value with its tensors cloned, so that callers cannot change an entry.

    A VAE's distribution is returned as is, because it creates new tensors itself.
    """
    import torch

    if isinstance(value, torch.Tensor):
        return value.clone()
    if type(value) in (list, tuple):
        return type(value)(_own_copy(part) for part in value)
    return value
