"""Finds the parts of a vision-language model: language model, vision parts and layers for adapters.

No model family or layer name is hard-coded. The library reports the decoder (`get_decoder`) and the output
layer; modules with weights next to the decoder are the vision parts (vision tower, projector). Adapters go to
every linear layer of a part, with any name, so that fused or recurrent layers of a new family are
included. The names are combined into one regular expression without layer numbers, which keeps the adapter's
file short.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")
BASE_PREFIX = "base_model.model."
"""Prefix that peft adds to the names of the model it wraps."""


def _shape(name: str) -> str:
    """Return a module's name as a regular expression that matches any layer number."""
    return r"\d+".join(re.escape(piece) for piece in NUMBER.split(name))


@dataclass(frozen=True)
class ModelParts:
    """Parts of a model; `model` is the library's own class, not wrapped by adapters."""

    model: Any

    @cached_property
    def language(self) -> str:
        """Name of the language model's module, such as "model.language_model"."""
        return self._name_of(self.model.get_decoder())

    @cached_property
    def head(self) -> str:
        """Name of the output layer, such as "lm_head"."""
        return self._name_of(self.model.get_output_embeddings())

    @cached_property
    def seeing(self) -> tuple[str, ...]:
        """Names of the vision parts: vision tower and projectors, which may be one module."""
        around, _, own = self.language.rpartition(".")
        parent = self.model.get_submodule(around)
        others = ((name, part) for name, part in parent.named_children() if name != own)
        beside = [name for name, part in others if next(part.parameters(), None) is not None]
        return tuple(f"{around}.{name}" if around else name for name in beside)

    def freeze_seeing(self) -> None:
        """Freeze the vision parts."""
        for name in self.seeing:
            self.model.get_submodule(name).requires_grad_(False)
        for weight in self._single.values():
            weight.requires_grad_(False)

    def adapter_targets(self, with_seeing: bool) -> str:
        """Return a regular expression for the linear layers of the language model (and the vision parts)."""
        parts = (self.language, *self.seeing) if with_seeing else (self.language,)
        wanted = {name for part in parts for name in self._linear(part)}
        named: dict[str, set[str]] = {}
        for name, _ in self.model.named_modules():
            named.setdefault(_shape(name), set()).add(name)
        pieces = set()
        for name in wanted:
            alike = named[_shape(name)]
            # If only some modules of a numbered series are linear, they are listed by name.
            pieces.add(_shape(name) if alike <= wanted else re.escape(name))
        return "|".join(sorted(pieces))

    def part_of(self, weight: str) -> str:
        """Return a readable name of the part that a weight or an adapter's weight belongs to."""
        name = weight.removeprefix(BASE_PREFIX)
        seeing = next((part for part in self.seeing if name.startswith(f"{part}.")), None)
        if "lora_" in name:
            return "adapter, vision" if seeing else "adapter, language"
        if seeing is not None:
            projects = seeing != self._tower or "merger" in name
            return "projectors (mergers)" if projects else "vision tower"
        if name.startswith(f"{self.head}."):
            return "output layer"
        if name in self._single:
            return "projectors (mergers)"
        if not name.startswith(f"{self.language}."):
            return "other"
        if name.startswith(f"{self._embeddings}."):
            return "embeddings"
        return "language layers" if NUMBER.search(name) else "language, last norm"

    @cached_property
    def _single(self) -> dict[str, Any]:
        """Weights next to the language model that are not in a module, such as an end-of-row embedding."""
        around = self.language.rpartition(".")[0]
        parent = self.model.get_submodule(around)
        own = parent.named_parameters(recurse=False)
        return {f"{around}.{name}" if around else name: weight for name, weight in own}

    @cached_property
    def _tower(self) -> str:
        """Name of the largest vision part."""

        def weights(name: str) -> int:
            return sum(one.numel() for one in self.model.get_submodule(name).parameters())

        return max(self.seeing, key=weights, default="")

    @cached_property
    def _embeddings(self) -> str:
        return self._name_of(self.model.get_input_embeddings())

    def _linear(self, part: str) -> Iterator[str]:
        from torch.nn import Linear

        for name, module in self.model.get_submodule(part).named_modules(prefix=part):
            # A gate with one output is skipped: its adapter would be larger than the layer.
            if isinstance(module, Linear) and module.out_features > 1:
                yield name

    def _name_of(self, module: Any) -> str:
        return next((name for name, one in self.model.named_modules() if one is module), "")
