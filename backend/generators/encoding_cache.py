"""Prompt embeddings and source latents cached between draws, for every diffusers pipeline alike, and for the
host's models.

Decision: the two calls that all pipelines make (`encode_prompt`, `vae.encode`) are answered from the cache
where their arguments are equal, text by text and pixel by pixel; no pipeline class is known here. A VAE's
answer is the distribution of the latents and not a sample of it, so the random source goes on as it would
have. Arguments that cannot be compared are not cached. Entries stay on the device they were computed on: they
are small beside the weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from pydantic import Field

from ..byte_lru import ByteLRU, tensor_bytes
from ..counters import count
from ..types import Value

MEBIBYTE = 1024 * 1024


class EncodingCacheSettings(Value):
    """What a generator caches; nothing here changes an image."""

    encodings_bytes: int = Field(
        default=128 * MEBIBYTE,
        ge=0,
        description="Memory for prompt embeddings and image latents that are cached between draws, in bytes; "
        "0 encodes every prompt and every source anew. FLUX.2 klein takes 8 MB for a prompt and 10 MB for an "
        "image of a megapixel.",
    )


class EncodingCache:
    """One cache for all that a generator encodes. Not for several threads at once."""

    def __init__(self, settings: EncodingCacheSettings) -> None:
        self._entries: ByteLRU[Hashable, Any] = ByteLRU(settings.encodings_bytes, tensor_bytes)

    def text(self, name: str, encode: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the text encoder gives for these arguments; `name` tells encoders apart."""
        return self._answer("text_encodes", "text_kept", name, encode, arguments, options)

    def image(self, name: str, encode: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the image encoder gives for these arguments; `name` tells encoders apart."""
        return self._answer("image_encodes", "latents_kept", name, encode, arguments, options)

    def attach(self, pipeline: Any) -> None:
        """From now on this diffusers pipeline encodes an equal prompt and an equal image once."""
        if hasattr(pipeline, "encode_prompt"):
            pipeline.encode_prompt = partial(self.text, type(pipeline).__name__, pipeline.encode_prompt)
        vae = getattr(pipeline, "vae", None)
        # A pipeline and its image-to-image twin have the same VAE.
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
    """Something equal for equal arguments: numbers and texts themselves, pixels by digest; None for what is
    neither."""
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
        # How the numbers lie in memory shows in the last bit of a convolution.
        return str(value.dtype), str(value.device), tuple(value.shape), value.stride(), digest
    if isinstance(value, (list, tuple)):
        parts = tuple(compared(part) for part in value)
        return None if None in parts else (type(value).__name__, parts)
    return None


def _own_copy(value: Any) -> Any:
    """Tensors copied, so that nobody changes an entry; a VAE's distribution as it is, which makes new ones
    itself."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.clone()
    if type(value) in (list, tuple):
        return type(value)(_own_copy(part) for part in value)
    return value
