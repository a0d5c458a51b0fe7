"""Finds the precisions of agents and image model that fit into VRAM together, and what is offloaded when.

The peak is the largest sum of what is in VRAM at one moment: planning, judging, encoding a prompt, denoising,
decoding. Four arrangements are tried, from nothing ever offloaded to everything in turns. The first that fits
is the plan. Nothing is measured, loaded or downloaded. Every figure has a formula with published widths and
counts, so that an estimate can be checked by hand. A gigabyte is 10⁹ bytes throughout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, computed_field

from ...core.seams.chat_model import MAX_PIXELS
from ...core.types import Value
from .models import NamedAgent
from .shapes import AgentShape, ImageShape

AgentPrecision = Literal["bf16", "8-bit", "4-bit", "GGUF"]
ImagePrecision = Literal["bf16", "fp8", "GGUF"]

GB = 1e9
BF16 = 2.0
INT8 = 1.0
"""Bytes of an 8-bit weight (bitsandbytes LLM.int8).

Its single scale per row adds a thousandth, which is ignored.
"""
NF4 = 0.5625
"""Bytes of a 4-bit weight for inference: half a byte, and a 4-byte scale per 64 weights."""
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
GGUF_TOKENS, GGUF_BUFFERS = 16384, 0.5 * GB
"""Context that llama.cpp reserves (chat/llamacpp_chat.py), and its buffers (estimated, not measured)."""
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
        largest: Larger areas are scaled down to this before an agent sees them (seams/chat_model.py).
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


def judging_memory(
    shape: AgentShape, pixels: int, answer: int, precision: AgentPrecision, batch: int
) -> float:
    """Return the bytes of VRAM for `batch` verdicts of `answer` tokens at once, about two images each."""
    work = agent_work(shape, CRITIC_TEMPLATE + PROMPT, [pixels, pixels], answer, precision)
    return CONTEXT + agent_weights(shape, precision) + work * batch * (1 + FRAGMENTS)


def kv_bytes(shape: AgentShape, tokens: int) -> float:
    """Return the bytes of the key/value cache, with one of its layers twice, as while it is extended."""
    return shape.kv_bytes_per_token * tokens * (1 + 1 / shape.layers)


def image_work(shape: ImageShape, pixels: int, bytes_each: int = 2) -> int:
    """Return the peak working memory in bytes to generate an image of this area, including fragmentation.

    Args:
        shape: Shape of the image model.
        pixels: Area of the image.
        bytes_each: Bytes of a value (4 for float32).
    """
    return int(max(shape.work(pixels).values()) * (1 + FRAGMENTS) * bytes_each / BF16)


CARDS = (12, 16, 24, 48, 80)
"""Planned GPUs, by their nominal VRAM in GB (actually GiB)."""
SEEN = 0.98
"""Usable share of a GPU's VRAM.

torch reports 11.8 of 12 GiB on an RTX 3060, 23.6 of 24 on an RTX 4090, and 79.2 of 80 on an H100.
"""
CONTEXT = 0.6 * GB
"""Bytes of the CUDA context with loaded kernels and the workspaces of the matrix and convolution libraries.

300 to 500 MB with lazy loading, see pytorch issue 107667.
"""

Arrangement = Literal["together", "planner first", "in turns", "part by part"]
WHAT_MOVES: dict[Arrangement, str] = {
    "together": "everything stays in VRAM",
    "planner first": "the planner is offloaded before the first image; critic and image model stay in VRAM",
    "in turns": "planner, critic and image model take turns: "
    "at every attempt the critic is offloaded for the image model and loaded again",
    "part by part": "as in turns, and text encoder, diffusion model and VAE also take turns",
}
COMBINATIONS: tuple[tuple[AgentPrecision, ImagePrecision], ...] = (
    ("bf16", "bf16"),
    ("8-bit", "bf16"),
    ("bf16", "fp8"),
    ("8-bit", "fp8"),
    ("4-bit", "bf16"),
    ("4-bit", "fp8"),
)
"""Precisions of agents and image model, the highest first.

8 bits lose hardly any quality, 4 bits some points.
"""


class ModelPart(Value):
    """A model that is in VRAM at some moment. Sizes are in bytes."""

    name: Literal["planner", "critic", "denoiser", "encoder", "vae"]
    weights: float = Field(ge=0)
    work: float = Field(ge=0, description="Peak working memory in addition to the weights.")

    @property
    def alone(self) -> float:
        """Weights and working memory together."""
        return self.weights + self.work


class Fit(Value):
    """A combination of precisions on a GPU, and the arrangement that fits, or None. Sizes are in bytes."""

    agents: AgentPrecision
    image: ImagePrecision
    arrangement: Arrangement | None
    peak: float = Field(
        description="Peak VRAM including the reserve; of the smallest arrangement if none fits."
    )
    moved: float = Field(description="Weights loaded into VRAM at every attempt.")
    waiting: float = Field(description="Maximum weights in RAM while the loop runs.")
    short: float = Field(default=0.0, description="Missing VRAM, 0 if it fits.")
    bottleneck: str = Field(default="", description="Model that works at the peak.")


class CardPlan(Value):
    """All combinations on one GPU. `usable` bytes of its VRAM are available."""

    card: int
    usable: float
    fits: tuple[Fit, ...]
    lower: tuple[str, ...] = Field(default=(), description="Suggestions if nothing fits.")

    @computed_field
    @property
    def finest(self) -> Fit | None:
        """The highest precisions that fit in any arrangement."""
        return next((fit for fit in self.fits if fit.arrangement), None)

    @computed_field
    @property
    def steady(self) -> Fit | None:
        """The highest precisions with which nothing is offloaded while the loop runs."""
        return next((fit for fit in self.fits if fit.arrangement in ("together", "planner first")), None)


class MemoryPlan(Value):
    """The plan for one set of models and one image size."""

    generator: str
    planner: str
    critic: str
    size: tuple[int, int]
    reserve: float
    parts: Mapping[str, tuple[ModelPart, ...]] = Field(
        description="Models by precisions, such as 'bf16 + fp8'."
    )
    cards: tuple[CardPlan, ...]


def plan_memory(
    image: ImageShape | None,
    planner: NamedAgent | None,
    critic: NamedAgent | None,
    size: tuple[int, int] = (1024, 1024),
    cards: Sequence[int] = CARDS,
    reserve: float = 0.0,
) -> MemoryPlan:
    """Plan the VRAM of these models. A model is None if it does not run on this GPU.

    Args:
        image: Image model.
        planner: Planner.
        critic: Critic.
        size: Width and height of the images in pixels.
        cards: Nominal VRAM of the GPUs in GB.
        reserve: Bytes reserved for other programs.
    """
    shared = planner is not None and planner == critic
    given = [one for one in (planner, critic) if one is not None]
    in_gguf = bool(given) and all(one.gguf for one in given), image is not None and bool(image.gguf)
    pairs: dict[tuple[AgentPrecision, ImagePrecision], None] = {}
    for agents, other in COMBINATIONS:  # a file keeps its own precision
        pairs["GGUF" if in_gguf[0] else agents, "GGUF" if in_gguf[1] else other] = None
    parts = {pair: _parts(image, planner, critic, size[0] * size[1], *pair) for pair in pairs}
    generator, *names = (one.name if one else "not on this GPU" for one in (image, planner, critic))
    return MemoryPlan(
        generator=generator,
        planner=names[0],
        critic=names[1],
        size=size,
        reserve=CONTEXT + reserve,
        parts={" + ".join(pair): found for pair, found in parts.items()},
        cards=tuple(_card(card, parts, shared, CONTEXT + reserve) for card in cards),
    )


def _parts(
    image: ImageShape | None,
    planner: NamedAgent | None,
    critic: NamedAgent | None,
    pixels: int,
    agents: AgentPrecision,
    images: ImagePrecision,
) -> tuple[ModelPart, ...]:
    """Return what planning a request, judging an image against another one, and generating one needs."""
    found: list[ModelPart] = []
    asked: tuple[tuple[Literal["planner", "critic"], NamedAgent | None, int, list[int]], ...] = (
        ("planner", planner, PLANNER_TEMPLATE, [MAX_PIXELS] * PLANNED_IMAGES),
        ("critic", critic, CRITIC_TEMPLATE, [pixels, pixels]),
    )
    for role, agent, template, shown in asked:
        if agent is not None and agent.gguf:
            work = GGUF_TOKENS * agent.shape.kv_bytes_per_token + GGUF_BUFFERS
            found.append(ModelPart(name=role, weights=agent.gguf, work=work))
        elif agent is not None:
            work = agent_work(agent.shape, template + PROMPT, shown, ANSWER, agents)
            found.append(ModelPart(name=role, weights=agent_weights(agent.shape, agents), work=work))
    if image is not None:
        work = image.work(pixels)
        for name, weights in image.weights.items():
            # The VAE keeps 16 bits.
            each = FP8 if images == "fp8" and name != "vae" else BF16
            size = image.gguf if name == "denoiser" and image.gguf else weights * each
            found += [ModelPart(name=name, weights=size, work=work[name])] if weights else []
    return tuple(found)


def moments(parts: Sequence[ModelPart], arrangement: Arrangement, shared: bool = False) -> dict[str, float]:
    """Return the bytes of weights and working memory in VRAM at each moment, by the part that works.

    Args:
        parts: The models.
        arrangement: What is offloaded when.
        shared: Whether planner and critic are one model, so that neither is offloaded for the other.
    """
    weights = {part.name: part.weights for part in parts}
    if shared:
        weights["planner"] = 0.0
    return {
        part.name: sum(weights.get(name, 0.0) for name in _beside(part.name, arrangement, shared))
        + part.work * (1 + FRAGMENTS)
        for part in parts
    }


def _beside(name: str, arrangement: Arrangement, shared: bool) -> set[str]:
    """Return the parts whose weights are in VRAM while `name` works, including itself."""
    everything = {"planner", "critic", "denoiser", "encoder", "vae"}
    image = {"denoiser", "encoder", "vae"}
    if arrangement == "together":
        return everything
    if name == "planner":
        return {"planner", "critic"} if shared else {"planner"}
    if arrangement == "planner first":
        return everything - {"planner"}
    if name == "critic":
        return {"critic"}
    if arrangement == "in turns":
        return image
    return {name}


def _card(
    card: int,
    parts: Mapping[tuple[AgentPrecision, ImagePrecision], Sequence[ModelPart]],
    shared: bool,
    reserve: float,
) -> CardPlan:
    usable = card * 1024**3 * SEEN
    fits = tuple(_fit(found, shared, reserve, usable, *pair) for pair, found in parts.items())
    smallest = list(parts.values())[-1]
    lower = () if any(fit.arrangement for fit in fits) else _what_to_lower(smallest, fits[-1].bottleneck)
    return CardPlan(card=card, usable=usable, fits=fits, lower=lower)


def _fit(
    parts: Sequence[ModelPart],
    shared: bool,
    reserve: float,
    usable: float,
    agents: AgentPrecision,
    image: ImagePrecision,
) -> Fit:
    tried: dict[Arrangement, dict[str, float]] = {one: moments(parts, one, shared) for one in WHAT_MOVES}
    peaks = {one: max(found.values(), default=0.0) + reserve for one, found in tried.items()}
    chosen: Arrangement | None = next((one for one in WHAT_MOVES if peaks[one] <= usable), None)
    last: Arrangement = chosen or "part by part"
    weights = {part.name: part.weights for part in parts if not (shared and part.name == "planner")}
    # Quantized weights are not kept in RAM: they are read from the disk again.
    kept = {
        name: one for name, one in weights.items() if agents == "bf16" or name not in ("planner", "critic")
    }
    moved = waiting = 0.0
    if chosen in ("in turns", "part by part"):
        moved, waiting = sum(weights.values()) - weights.get("planner", 0.0), sum(kept.values())
    elif chosen == "planner first":
        waiting = kept.get("planner", 0.0)
    return Fit(
        agents=agents,
        image=image,
        arrangement=chosen,
        peak=peaks[last],
        moved=moved,
        waiting=waiting,
        short=0.0 if chosen else peaks[last] - usable,
        bottleneck=max(tried[last], key=tried[last].__getitem__, default=""),
    )


def _what_to_lower(parts: Sequence[ModelPart], bottleneck: str) -> tuple[str, ...]:
    """Return suggestions if even the lowest precisions in turns do not fit, the most effective first."""
    if bottleneck in ("planner", "critic"):
        return (
            f"use a smaller {bottleneck} (qwen3-vl-4b, qwen3-vl-2b)",
            f"use a {bottleneck} on another machine (openai:MODEL@URL, Remote Agent)",
        )
    part = next(one for one in parts if one.name == bottleneck)
    model = "use a smaller image model"
    slower = "let ComfyUI offload a part of the image model to RAM, which is slower"
    size = "generate smaller images (size)"
    return (size, model, slower) if part.work > part.weights else (model, slower, size)
