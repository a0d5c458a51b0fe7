"""What a local model may do to answer sooner, each switchable alone, none of which changes the answer (but
for the last, which rounds otherwise and is off).

Decision: settings and not constants, so that every saving can be measured and tested against doing without
it, and so that a person who meets a fault can switch one thing off. What is kept lies in main memory, never
on the card: a host that manages the card's memory must not find there what it does not know of.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ...types import Value

MEBIBYTE = 1024 * 1024


class EngineSettings(Value):
    """How a local model saves work."""

    own_loop: bool = Field(
        default=True,
        description="Decode by a loop that writes keys and values in place; off: transformers' generate, "
        "which copies all "
        "of them at every token. The levers below need it, but for the patches.",
    )
    written_out: bool = Field(
        default=True,
        description="Pass single tokens through the model's layers without the library's calls around them.",
    )
    vision_bytes: int = Field(
        default=512 * MEBIBYTE,
        ge=0,
        description="Main memory for the features of images already seen, in bytes; 0 sees every image "
        "anew. An image of a "
        "megapixel takes about 33 MB with an 8B model in 16 bits.",
    )
    prefix_bytes: int = Field(
        default=512 * MEBIBYTE,
        ge=0,
        description="Main memory for keys and values of prompt heads (up to the end of the first of "
        "several images), in bytes; "
        "0 computes every prompt whole. A head with an image of a megapixel takes about 150 MB with an 8B "
        "model in 16 bits.",
    )
    linear_patches: bool = Field(
        default=True,
        description="Embed image patches by a matrix product instead of a convolution, exact to rounding.",
    )
    draft_tokens: int = Field(
        default=16,
        ge=0,
        le=64,
        description="Tokens at most that are guessed from what the prompt and the answer said before, and "
        "read in the pass of "
        "the token before them; 0 reads them one by one. Exact to rounding.",
    )
    static_cache: Literal["off", "eager", "compiled"] = Field(
        default="off",
        description="Decode in buffers of a fixed size: compiled is for CUDA cards, eager for comparison. "
        "Unlike the others "
        "it rounds otherwise, and its buffers lie on the card (0.6 GB for 4 096 tokens with an 8B model in "
        "16 bits).",
    )


PLAIN = EngineSettings(
    own_loop=False, written_out=False, vision_bytes=0, prefix_bytes=0, draft_tokens=0, linear_patches=False
)
"""As transformers does it, nothing kept."""
