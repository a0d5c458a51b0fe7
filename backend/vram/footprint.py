"""What an agent and an image model take on a card: weights at a precision, and what working takes beside
them.

Decision: a formula for every figure, from widths and counts that anybody can look up, so that a plan can be
checked by hand and holds for models nobody here has seen. A gigabyte is 10⁹ bytes throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..chat.image_limits import MAX_PIXELS
from .agent_shapes import AgentShape
from .image_shapes import ImageShape, PartName

AgentPrecision = Literal["bf16", "8-bit", "4-bit"]
ImagePrecision = Literal["bf16", "fp8"]

GB = 1e9
BF16 = 2.0
INT8 = 1.0
"""Bytes of an 8-bit weight (bitsandbytes LLM.int8; its one scale a row adds a thousandth, which is left
out)."""
NF4 = 0.5625
"""Bytes of a 4-bit weight as agents are loaded: half a byte, and a scale of 4 bytes for 64 weights."""
NF4_DOUBLE = 0.516
"""The same with the scales themselves in 8 bits (QLoRA, section 3), as agents are trained."""
FP8 = 1.0
FRAGMENTS = 0.1
"""Share of the working memory that is lost between blocks of torch's allocator (judged, not measured)."""

CRITIC_TEMPLATE = 1164
"""Tokens of the published critic's template, counted with the Qwen vocabulary."""
PLANNER_TEMPLATE = 96
"""Tokens of the published planner's, likewise."""
PROMPT = 400
"""Tokens allowed for the words of a request, or of two prompts."""
ANSWER = 2048
"""Tokens reckoned with for an answer: more than nearly any verdict has, and a plan of 14 steps. Every
thousand more takes 0.15 GB with an 8B model."""
PLANNED_IMAGES = 4
"""Images reckoned with for a request."""
VISION_WIDTHS = 21.1
"""Values alive at once for a patch in the vision tower, as multiples of its width; counted on Qwen3-VL-8B's
with benchmarks/live_bytes.py, with the deepstack levels. Beside them the patch itself lies there in 32 and in
16 bits."""
PREFILL_WIDTHS, PREFILL_INNER = 4.07, 3.0
"""Values alive at once for a token of the prompt in the language layers, as multiples of the width and of the
MLP's inner width; counted likewise on the 2B and 8B models."""


def agent_weights(shape: AgentShape, precision: AgentPrecision) -> float:
    """Bytes of the weights. Embeddings, output layer and vision tower keep 16 bits
    (shared_base.NOT_QUANTIZED)."""
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
    """Bytes beside the weights at the worst moment of one reply to `words` tokens and images of these areas
    in pixels.

    Three moments: seeing (the vision tower, all images at once), reading the prompt, and the answer's last
    token. Areas above `largest` are scaled down to it before an agent is shown them (chat/image_limits.py).
    """
    areas = [min(area, largest) for area in images]
    image_tokens = sum(map(shape.image_tokens, areas))
    tokens = words + image_tokens
    patch = VISION_WIDTHS * shape.vision_width * BF16 + shape.patch_values * (4.0 + BF16)
    seeing = sum(map(shape.image_patches, areas)) * patch
    features = image_tokens * (1 + shape.deepstack) * shape.width * BF16
    reading = tokens * (PREFILL_WIDTHS * shape.width + PREFILL_INNER * shape.inner) * BF16
    # A matrix is unpacked to 16 bits before it is used (4 bits), or its result stands in 32 bits first (8
    # bits).
    unpacked = {
        "bf16": 0.0,
        "8-bit": tokens * shape.inner * 4.0,
        "4-bit": shape.width * shape.inner * BF16,
    }[precision]
    logits = shape.vocabulary * 4.0
    last = kv_bytes(shape, tokens + answer) + logits * 3
    return max(seeing, features + kv_bytes(shape, tokens) + reading + unpacked + logits, features + last)


def kv_bytes(shape: AgentShape, tokens: int) -> float:
    """Bytes of the key/value cache of so many tokens, and of one layer of it twice, while that one is being
    lengthened."""
    return shape.kv_bytes_per_token * tokens * (1 + 1 / shape.layers)


def planner_work(shape: AgentShape, precision: AgentPrecision) -> float:
    """Bytes beside the weights to plan a request with four images of the full area."""
    return agent_work(shape, PLANNER_TEMPLATE + PROMPT, [MAX_PIXELS] * PLANNED_IMAGES, ANSWER, precision)


def critic_work(shape: AgentShape, precision: AgentPrecision, pixels: int) -> float:
    """Bytes beside the weights to judge an image of this area against the one before."""
    return agent_work(shape, CRITIC_TEMPLATE + PROMPT, [pixels, pixels], ANSWER, precision)


def image_weights(shape: ImageShape, precision: ImagePrecision) -> dict[PartName, float]:
    """Bytes of each part's weights. fp8 is for the diffusion model and the text encoder; the VAE keeps 16
    bits."""
    each = BF16 if precision == "bf16" else FP8
    counts = shape.weights
    return {
        "denoiser": counts["denoiser"] * each,
        "encoder": counts["encoder"] * each,
        "vae": counts["vae"] * BF16,
    }


def image_work(shape: ImageShape, pixels: int, bytes_each: int = 2) -> int:
    """Bytes beside the weights while an image of this area is drawn, at its worst moment and with what is
    lost between blocks; `bytes_each`: of a value (4 in 32 bits)."""
    return int(max(shape.work(pixels).values()) * (1 + FRAGMENTS) * bytes_each / BF16)
