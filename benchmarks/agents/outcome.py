"""Decisions and cost of a system's run, in terms that apply to all systems."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Outcome:
    """Decisions of a run. Equal work has equal outcomes."""

    prompts: list[tuple[int, str]] = field(default_factory=list)
    """Step (from 0) and prompt of every attempt, in order."""
    images: list[str] = field(default_factory=list)
    """Digest of every attempt's image."""
    accepted: list[bool] = field(default_factory=list)
    """For every attempt, whether the critic accepted it and ended the step."""
    chosen: list[str] = field(default_factory=list)
    """Digest of each step's image."""
    free: list[int] = field(default_factory=list)
    """Greedy tokens before forcing. They affect no decision but reveal numerical differences."""


@dataclass
class Cost:
    """Operations, counted on the modules in the same way for all systems, and processor time."""

    lm_forwards: int = 0
    lm_tokens: int = 0
    images_seen: int = 0
    vision_patches: int = 0
    cpu_seconds: float = 0.0

    def counts(self) -> dict[str, int]:
        """Return all counts, without the processor time."""
        values = asdict(self)
        return {name: value for name, value in values.items() if name != "cpu_seconds"}


@contextmanager
def costing(*models: Any) -> Iterator[Cost]:
    """Count and time the forward passes of these Qwen3-VL models inside the block."""
    cost = Cost()

    def on_language(module: Any, arguments: Any, options: dict[str, Any]) -> None:
        hidden = arguments[0] if arguments else options["x"]
        cost.lm_forwards += 1
        cost.lm_tokens += hidden.shape[0] * hidden.shape[1]

    def on_vision(module: Any, arguments: Any, options: dict[str, Any]) -> None:
        patches = arguments[0] if arguments else options["hidden_states"]
        cost.vision_patches += patches.shape[0]
        cost.images_seen += options["grid_thw"].shape[0]

    hooks = []
    for model in {id(model): model for model in models}.values():
        # Rotary embeddings are computed once per pass, however the layers are called.
        rotary = model.model.language_model.rotary_emb
        hooks.append(rotary.register_forward_pre_hook(on_language, with_kwargs=True))
        hooks.append(model.model.visual.register_forward_pre_hook(on_vision, with_kwargs=True))
    began = time.process_time()
    try:
        yield cost
    finally:
        cost.cpu_seconds = time.process_time() - began
        for hook in hooks:
            hook.remove()
