"""Settings that make a local model answer faster. They do not change answers.

They are settings and not constants, so that every saving can be measured and tested, and a user can switch
off one that causes problems. Image features are cached in RAM, since a host that manages VRAM does not know
of them. The keys and values of a question are on the device with the weights, and leave it with them.
"""

from __future__ import annotations

from pydantic import Field

from ...types import Value

MEBIBYTE = 1024 * 1024


class EngineSettings(Value):
    """How a local model decodes."""

    enabled: bool = Field(
        default=True,
        description="Decode with the engine, which writes keys and values in place. If it is off, the "
        "generate function of transformers is used, which copies them at every token; the settings below "
        "then have no effect, except linear_patches.",
    )
    inline_layers: bool = Field(
        default=True,
        description="Inline the decoder layers for tokens of an answer, to avoid overhead of the library.",
    )
    vision_bytes: int = Field(
        default=512 * MEBIBYTE,
        ge=0,
        description="Size of the cache for image features in RAM, in bytes; 0 disables it. An image of one "
        "megapixel takes about 33 MB with an 8B model in 16 bits.",
    )
    prompt_lookup_tokens: int = Field(
        default=16,
        ge=0,
        le=64,
        description="Prompt lookup decoding: maximum number of draft tokens, copied from earlier text and "
        "processed in the pass of the token before them; 0 disables it. Exact except for rounding.",
    )
    prefix_tokens: int = Field(
        default=8192,
        ge=0,
        description="Cache the keys and values of a question with up to this number of tokens on the device, "
        "so that only the different part of the next question is read, and what questions of a batch have in "
        "common once. Exact except for rounding; 0 disables it. A thousand tokens take 0.15 GB with an 8B "
        "model.",
    )
    linear_patches: bool = Field(
        default=True,
        description="Embed image patches by a matrix product instead of a convolution. Exact except for "
        "rounding.",
    )


PLAIN = EngineSettings(
    enabled=False,
    inline_layers=False,
    vision_bytes=0,
    prompt_lookup_tokens=0,
    prefix_tokens=0,
    linear_patches=False,
)
"""The behavior of transformers, without caches."""
