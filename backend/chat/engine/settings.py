"""What makes a local model answer sooner; nothing here changes an answer.

Decision: settings and not constants, so that every saving can be measured and tested against doing without
it, and a person who meets a fault can switch one thing off. Caches lie in main memory: a host that manages
the card's memory must not find there what it does not know of.
"""

from __future__ import annotations

from pydantic import Field

from ...types import Value

MEBIBYTE = 1024 * 1024


class EngineSettings(Value):
    """How a local model decodes."""

    enabled: bool = Field(
        default=True,
        description="Decode with the engine, which writes keys and values in place; off: transformers' "
        "generate, which copies all of them at every token and uses none of the settings below but "
        "linear_patches.",
    )
    inline_layers: bool = Field(
        default=True,
        description="Pass an answer's tokens through the decoder layers without the library's calls around "
        "them.",
    )
    vision_bytes: int = Field(
        default=512 * MEBIBYTE,
        ge=0,
        description="Main memory for the features of images already seen, in bytes; 0 sees every image "
        "anew. An image of a megapixel takes about 33 MB with an 8B model in 16 bits.",
    )
    prompt_lookup_tokens: int = Field(
        default=16,
        ge=0,
        le=64,
        description="Prompt lookup decoding: tokens at most that are drafted from what the prompt and the "
        "answer said before, and read in the pass of the token before them; 0 reads them one by one. Exact "
        "to rounding.",
    )
    prefix_tokens: int = Field(
        default=8192,
        ge=0,
        description="Tokens at most of a question whose keys and values stay on the device, so that the next "
        "question is read from where it differs. Exact to rounding; 0 reads every question from its "
        "beginning. A thousand tokens take 0.15 GB with an 8B model.",
    )
    linear_patches: bool = Field(
        default=True,
        description="Embed image patches by a matrix product instead of a convolution, exact to rounding.",
    )


PLAIN = EngineSettings(
    enabled=False,
    inline_layers=False,
    vision_bytes=0,
    prompt_lookup_tokens=0,
    prefix_tokens=0,
    linear_patches=False,
)
"""As transformers does it, nothing cached."""

RENAMED = {"own_loop": "enabled", "written_out": "inline_layers", "draft_tokens": "prompt_lookup_tokens"}
"""Settings of version 0.1 by the names that they have now."""
REMOVED = {"prefix_bytes": "0.1.0", "static_cache": "0.1.0"}
"""Settings that are gone, and the last version that had them."""
