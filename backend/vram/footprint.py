"""The VRAM of an agent and an image model: weights at a precision, and working memory.

Every figure has a formula with published widths and counts, so that an estimate can be checked by hand and
also holds for new models. A gigabyte is 10⁹ bytes throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..chat.chat_model import MAX_PIXELS
from .agent_shapes import AgentShape
from .image_shapes import ImageShape, PartName

AgentPrecision = Literal["bf16", "8-bit", "4-bit"]
ImagePrecision = Literal["bf16", "fp8"]

GB = 1e9
BF16 = 2.0
INT8 = 1.0
"""Bytes of an 8-bit weight (bitsandbytes LLM.int8).

Its single scale per row adds a thousandth, which is ignored.
"""
NF4 = 0.5625
"""Bytes of a 4-bit weight for inference: half a byte, and a 4-byte scale per 64 weights."""
NF4_DOUBLE = 0.516
"""Bytes of a 4-bit weight for training, with the scales in 8 bits too (QLoRA, section 3)."""
FP8 = 1.0
FRAGMENTS = 0.1
"""Share of the working memory lost to fragmentation of torch's allocator (estimated, not measured)."""

CRITIC_TEMPLATE = 1164
"""Tokens of the published critic's template, counted with Qwen's tokenizer."""
PLANNER_TEMPLATE = 96
"""Tokens of the published planner's template, counted in the same way."""
PROMPT = 400
"""Tokens reserved for the text of a request, or of two prompts."""
ANSWER = 2048
"""Tokens reserved for a reply: more than nearly all verdicts, and a plan of 14 steps.

Every thousand more takes 0.15 GB with an 8B model.
"""
PLANNED_IMAGES = 4
"""Number of images reserved for a request."""
VISION_WIDTHS = 21.1
"""Values alive at once per patch in the vision tower, as multiples of its width.

Counted for Qwen3-VL-8B with tests/support/live_bytes.py, including the deepstack levels. In addition, the
patch itself is stored in 32 and in 16 bits.
"""
PREFILL_WIDTHS, PREFILL_INNER = 4.07, 3.0
"""Values alive at once per prompt token in the language layers.

Multiples of the width and of the MLP's inner width, counted in the same way for the 2B and 8B models.
"""


def agent_weights(shape: AgentShape, precision: AgentPrecision) -> float:
    """Return the bytes of the weights.

    Embeddings, output layer and vision tower keep 16 bits (shared_base.NOT_QUANTIZED).
    """
    each = {"bf16": BF16, "8-bit": INT8, "4-bit": NF4}[precision]
    return shape.layer_weights * each + (shape.table_weights + shape.vision_weights) * BF16


def agent_work(
    shape: AgentShape,
    words: int,
    images: Sequence[int],
    answer: int = ANSWER,
    precision: AgentPrecision = "bf16",
    largest: int = MAX_PIXELS,
) -> float:
    """Return the peak working memory of one reply, in bytes, in addition to the weights.

    It is the maximum over three moments: the vision tower with all images at once, reading the prompt, and
    the last token of the reply.

    Args:
        shape: Shape of the agent.
        words: Text tokens of the prompt.
        images: Areas of the images in pixels.
        answer: Tokens of the reply.
        precision: Precision of the language layers.
        largest: Larger areas are scaled down to this before an agent sees them (chat/image_limits.py).
    """
    areas = [min(area, largest) for area in images]
    image_tokens = sum(map(shape.image_tokens, areas))
    tokens = words + image_tokens
    patch = VISION_WIDTHS * shape.vision_width * BF16 + shape.patch_values * (4.0 + BF16)
    seeing = sum(map(shape.image_patches, areas)) * patch
    features = image_tokens * (1 + shape.deepstack) * shape.width * BF16
    reading = tokens * (PREFILL_WIDTHS * shape.width + PREFILL_INNER * shape.inner) * BF16
    # A 4-bit matrix is unpacked to 16 bits before use. The result of an 8-bit matrix is first in 32 bits.
    unpacked = {
        "bf16": 0.0,
        "8-bit": tokens * shape.inner * 4.0,
        "4-bit": shape.width * shape.inner * BF16,
    }[precision]
    logits = shape.vocabulary * 4.0
    last = kv_bytes(shape, tokens + answer) + logits * 3
    return max(seeing, features + kv_bytes(shape, tokens) + reading + unpacked + logits, features + last)


def kv_bytes(shape: AgentShape, tokens: int) -> float:
    """Return the bytes of the key/value cache, with one of its layers twice, as while it is extended."""
    return shape.kv_bytes_per_token * tokens * (1 + 1 / shape.layers)


def planner_work(shape: AgentShape, precision: AgentPrecision) -> float:
    """Return the working memory in bytes to plan a request with four images of the maximum area."""
    return agent_work(shape, PLANNER_TEMPLATE + PROMPT, [MAX_PIXELS] * PLANNED_IMAGES, ANSWER, precision)


def critic_work(shape: AgentShape, precision: AgentPrecision, pixels: int) -> float:
    """Return the working memory in bytes to judge an image of this area against the one before."""
    return agent_work(shape, CRITIC_TEMPLATE + PROMPT, [pixels, pixels], ANSWER, precision)


def image_weights(shape: ImageShape, precision: ImagePrecision) -> dict[PartName, float]:
    """Return the bytes of the weights of each part.

    fp8 applies to the diffusion model and the text encoder. The VAE keeps 16 bits.
    """
    each = BF16 if precision == "bf16" else FP8
    counts = shape.weights
    return {
        "denoiser": counts["denoiser"] * each,
        "encoder": counts["encoder"] * each,
        "vae": counts["vae"] * BF16,
    }


def image_work(shape: ImageShape, pixels: int, bytes_each: int = 2) -> int:
    """Return the peak working memory in bytes to generate an image of this area, including fragmentation.

    Args:
        shape: Shape of the image model.
        pixels: Area of the image.
        bytes_each: Bytes of a value (4 for float32).
    """
    return int(max(shape.work(pixels).values()) * (1 + FRAGMENTS) * bytes_each / BF16)
