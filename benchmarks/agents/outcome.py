"""What a system did with a job, in terms that all systems have, and what it cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Outcome:
    """The decisions of a run, wherever a loop reads them: equal work has equal outcomes."""

    prompts: list[tuple[int, str]] = field(default_factory=list)
    """Step (from 0) and prompt of every attempt, in order."""
    images: list[str] = field(default_factory=list)
    """Digest of every attempt's image."""
    accepted: list[bool] = field(default_factory=list)
    """For every attempt whether the step ended there because the critic said so."""
    chosen: list[str] = field(default_factory=list)
    """Digest of each step's image."""
    free: list[int] = field(default_factory=list)
    """Greedy tokens before they were forced; no decision, but what shows other numerics."""


@dataclass
class Cost:
    """Counted on the modules themselves, in the same way for every system, and the processor's time."""

    lm_forwards: int = 0
    lm_tokens: int = 0
    images_seen: int = 0
    vision_patches: int = 0
    cpu_seconds: float = 0.0

    def counts(self) -> dict[str, int]:
        values = asdict(self)
        return {name: value for name, value in values.items() if name != "cpu_seconds"}


@contextmanager
def costing(*models: Any) -> Iterator[Cost]:
    """Count the forward passes of these Qwen3-VL models inside the block, and time it."""
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
        # Places are turned into rotations once in every pass, however the layers are called.
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
