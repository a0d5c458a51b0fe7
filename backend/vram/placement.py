"""Finds the precisions of agents and image model that fit into VRAM together, and what is offloaded when.

The peak is the largest sum of what is in VRAM at one moment: planning, judging, encoding a prompt, denoising,
decoding. Four arrangements are tried, from nothing ever offloaded to everything in turns. The first that fits
is the plan. Nothing is measured, loaded or downloaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, computed_field

from ..types import Value
from .footprint import (
    FRAGMENTS,
    GB,
    AgentPrecision,
    ImagePrecision,
    agent_weights,
    critic_work,
    image_weights,
    planner_work,
)
from .image_shapes import ImageShape, PartName
from .models import NamedAgent

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
    """Plan the VRAM of these models.

    Args:
        image: Image model. None if it does not run on this GPU.
        planner: Planner. None if it does not run on this GPU.
        critic: Critic. None if it does not run on this GPU.
        size: Width and height of the images in pixels.
        cards: Nominal VRAM of the GPUs in GB.
        reserve: Bytes reserved for other programs.
    """
    shared = planner is not None and planner == critic
    parts = {
        pair: _parts(image, planner, critic, size[0] * size[1], pair[0], pair[1]) for pair in COMBINATIONS
    }
    return MemoryPlan(
        generator=image.name if image else "not on this GPU",
        planner=planner.name if planner else "not on this GPU",
        critic=critic.name if critic else "not on this GPU",
        size=size,
        reserve=CONTEXT + reserve,
        parts={" + ".join(pair): tuple(found) for pair, found in parts.items()},
        cards=tuple(_card(card, parts, shared, CONTEXT + reserve) for card in cards),
    )


def _parts(
    image: ImageShape | None,
    planner: NamedAgent | None,
    critic: NamedAgent | None,
    pixels: int,
    agents: AgentPrecision,
    images: ImagePrecision,
) -> list[ModelPart]:
    found = []
    if planner is not None:
        weights = agent_weights(planner.shape, agents)
        found.append(ModelPart(name="planner", weights=weights, work=planner_work(planner.shape, agents)))
    if critic is not None:
        weights = agent_weights(critic.shape, agents)
        found.append(
            ModelPart(name="critic", weights=weights, work=critic_work(critic.shape, agents, pixels))
        )
    if image is not None:
        sizes, work = image_weights(image, images), image.work(pixels)
        names: tuple[PartName, ...] = ("denoiser", "encoder", "vae")
        found += [ModelPart(name=name, weights=sizes[name], work=work[name]) for name in names if sizes[name]]
    return found


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
    fits = tuple(
        _fit(found, shared, reserve, usable, agents, image) for (agents, image), found in parts.items()
    )
    smallest = parts[COMBINATIONS[-1]]
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
    chosen: Arrangement | None = None
    found: dict[str, float] = {}
    for arrangement in WHAT_MOVES:
        found = moments(parts, arrangement, shared)
        if max(found.values(), default=0.0) + reserve <= usable:
            chosen = arrangement
            break
    peak = max(found.values(), default=0.0) + reserve
    everything = sum(part.weights for part in parts if not (shared and part.name == "planner"))
    planner = sum(part.weights for part in parts if part.name == "planner" and not shared)
    takes_turns = chosen is not None and chosen in ("in turns", "part by part")
    # Quantized weights are not kept in RAM: they are read from the disk again.
    able = [part for part in parts if agents == "bf16" or part.name not in ("planner", "critic")]
    waiting = sum(part.weights for part in able if not (shared and part.name == "planner"))
    planner_waits = sum(part.weights for part in able if part.name == "planner" and not shared)
    return Fit(
        agents=agents,
        image=image,
        arrangement=chosen,
        peak=peak,
        moved=everything - planner if takes_turns else 0.0,
        waiting=waiting if takes_turns else planner_waits if chosen == "planner first" else 0.0,
        short=0.0 if chosen else peak - usable,
        bottleneck=max(found, key=lambda name: found[name], default=""),
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
