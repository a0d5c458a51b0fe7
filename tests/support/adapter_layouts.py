"""LoRA adapters in many layouts, written by hand, with their expected effect on the base's weights.

The expected effect is computed here from the published formulas, without peft.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

PREFIX = "base_model.model."
LANGUAGE = "model.language_model.layers"
MODULES = tuple(
    f"{LANGUAGE}.{layer}.{name}"
    for layer in (0, 1)
    for name in ("self_attn.q_proj", "self_attn.v_proj", "mlp.up_proj", "mlp.down_proj")
)
NAMES = ["q_proj", "v_proj", "up_proj", "down_proj"]
RANK, ALPHA = 4, 8
State = dict[str, torch.Tensor]


@dataclass
class Layout:
    """An adapter: `weights` and `config` are written, `apply` computes the expected result."""

    state: State
    config: dict[str, Any] = field(default_factory=dict)
    weights: State = field(default_factory=dict)
    changes: list[Callable[[State], None]] = field(default_factory=list)

    def lora(
        self, module: str, rank: int = RANK, scale: float = ALPHA / RANK, dora: bool = False, seed: int = 0
    ) -> None:
        """Add LoRA matrices of a linear layer."""
        generator = torch.Generator().manual_seed(len(self.weights) + 100 * seed)
        wide, narrow = self.state[f"{module}.weight"].shape
        a = torch.randn(rank, narrow, generator=generator) * 0.3
        b = torch.randn(wide, rank, generator=generator) * 0.3
        self.weights[f"{PREFIX}{module}.lora_A.weight"] = a
        self.weights[f"{PREFIX}{module}.lora_B.weight"] = b
        magnitude = torch.rand(wide, generator=generator) + 0.5
        if dora:
            self.weights[f"{PREFIX}{module}.lora_magnitude_vector"] = magnitude

        def change(state: State) -> None:
            moved = state[f"{module}.weight"] + scale * (b @ a)
            if dora:
                moved = magnitude[:, None] * moved / moved.norm(dim=1, keepdim=True)
            state[f"{module}.weight"] = moved

        self.changes.append(change)

    def whole(self, name: str) -> None:
        """Add a whole weight."""
        generator = torch.Generator().manual_seed(7)
        value = torch.randn(self.state[name].shape, generator=generator) * 0.1
        self.weights[f"{PREFIX}{name}"] = value
        self.changes.append(lambda state: state.__setitem__(name, value))

    def renamed(self, old: str, new: str) -> Layout:
        """Rename every weight."""
        self.weights = {key.replace(old, new): value for key, value in self.weights.items()}
        return self

    def applied(self) -> State:
        """Return the base's weights with the adapter applied."""
        state = dict(self.state)
        for change in self.changes:
            change(state)
        return state

    def save(self, folder: Path) -> Path:
        from safetensors.torch import save_file

        folder.mkdir()
        save_file(
            {name: value.contiguous().clone() for name, value in self.weights.items()},
            folder / "adapter_model.safetensors",
        )
        (folder / "adapter_config.json").write_text(json.dumps(self.config))
        return folder


def canonical(state: State, **config: Any) -> Layout:
    """Return what peft writes for the language model's layers."""
    layout = bare(state, **config)
    for module in MODULES:
        layout.lora(module, dora=bool(config.get("use_dora")))
    return layout


def bare(state: State, **config: Any) -> Layout:
    """Return only the configuration."""
    known = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": NAMES, "bias": "none"}
    return Layout(state, {**known, **config})


def without(layout: Layout, *parts: str) -> Layout:
    """Remove the weights whose names contain one of these parts."""
    layout.weights = {
        key: value for key, value in layout.weights.items() if not any(part in key for part in parts)
    }
    return layout


def with_weight(layout: Layout, name: str, *size: int) -> Layout:
    """Add one weight."""
    layout.weights[name] = torch.ones(*size)
    return layout


def ranked(state: State, patterns: dict[str, int]) -> Layout:
    """Give the query layers rank 2."""
    layout = bare(state, rank_pattern=patterns)
    for module in MODULES:
        rank = 2 if "q_proj" in module else RANK
        layout.lora(module, rank, ALPHA / rank)
    return layout


def on(state: State, *modules: str, whole: tuple[str, ...] = (), **config: Any) -> Layout:
    """Return LoRA on these modules, and these weights whole."""
    layout = bare(state, target_modules=[name.rpartition(".")[2] for name in modules], **config)
    for module in modules:
        layout.lora(module)
    for name in whole:
        layout.whole(name)
    return layout


def embedding(state: State) -> Layout:
    """Return LoRA on the embeddings, whose matrices are transposed."""
    layout = on(state, MODULES[0], MODULES[4])
    layout.config["target_modules"] = ["q_proj", "embed_tokens"]
    name = "model.language_model.embed_tokens"
    rows, width = state[f"{name}.weight"].shape
    a, b = torch.randn(RANK, rows) * 0.2, torch.randn(width, RANK) * 0.2
    layout.weights |= {f"{PREFIX}{name}.lora_embedding_A": a, f"{PREFIX}{name}.lora_embedding_B": b}
    layout.changes.append(
        lambda state: state.__setitem__(f"{name}.weight", state[f"{name}.weight"] + ALPHA / RANK * (b @ a).T)
    )
    return layout
