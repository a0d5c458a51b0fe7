"""The parts of a model that sees and writes: where its language model lies, what it sees with, which layers
adapters go to. All of it is read off the model's own modules.

Decision: nothing here names a family or a layer. The library says which module decodes (`get_decoder`) and
which one is the output layer; what lies beside the decoder and holds weights is what the model sees with (a
vision tower, its projector). Adapters go to every linear layer of a part, under whatever name, so that fused
or recurrent layers of a new family are not passed over in silence. The names become one expression without
layer numbers, which is how an adapter's file stays short.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")
BASE_PREFIX = "base_model.model."
"""What peft puts before the names of the model that it wraps."""


def _shape(name: str) -> str:
    """A module's name as an expression that leaves its layer's number open."""
    return r"\d+".join(re.escape(piece) for piece in NUMBER.split(name))


@dataclass(frozen=True)
class ModelParts:
    """A model's parts; `model` is the library's own class, not wrapped by adapters."""

    model: Any

    @cached_property
    def language(self) -> str:
        """Where the language model lies, such as "model.language_model"."""
        return self._name_of(self.model.get_decoder())

    @cached_property
    def head(self) -> str:
        """Where the output layer lies, such as "lm_head"."""
        return self._name_of(self.model.get_output_embeddings())

    @cached_property
    def seeing(self) -> tuple[str, ...]:
        """Where the parts lie that it sees with: vision tower and projectors, which may be one module."""
        around, _, own = self.language.rpartition(".")
        parent = self.model.get_submodule(around)
        others = ((name, part) for name, part in parent.named_children() if name != own)
        beside = [name for name, part in others if next(part.parameters(), None) is not None]
        return tuple(f"{around}.{name}" if around else name for name in beside)

    def freeze_seeing(self) -> None:
        """Keep what it sees with as it is."""
        for name in self.seeing:
            self.model.get_submodule(name).requires_grad_(False)
        for weight in self._single.values():
            weight.requires_grad_(False)

    def adapter_targets(self, with_seeing: bool) -> str:
        """An expression over module names that matches every linear layer of the language model and, if
        wanted, of what it sees with."""
        parts = (self.language, *self.seeing) if with_seeing else (self.language,)
        wanted = {name for part in parts for name in self._linear(part)}
        named: dict[str, set[str]] = {}
        for name, _ in self.model.named_modules():
            named.setdefault(_shape(name), set()).add(name)
        pieces = set()
        for name in wanted:
            alike = named[_shape(name)]
            # Of a row of layers of several kinds some only are linear: these are named one by one.
            pieces.add(_shape(name) if alike <= wanted else re.escape(name))
        return "|".join(sorted(pieces))

    def part_of(self, weight: str) -> str:
        """What a person calls the part that a weight of this name belongs to; an adapter's weight too."""
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
        """Weights beside the language model that belong to no module, such as the one for the end of a row of
        an image."""
        around = self.language.rpartition(".")[0]
        parent = self.model.get_submodule(around)
        own = parent.named_parameters(recurse=False)
        return {f"{around}.{name}" if around else name: weight for name, weight in own}

    @cached_property
    def _tower(self) -> str:
        """The largest of what it sees with."""

        def weights(name: str) -> int:
            return sum(one.numel() for one in self.model.get_submodule(name).parameters())

        return max(self.seeing, key=weights, default="")

    @cached_property
    def _embeddings(self) -> str:
        return self._name_of(self.model.get_input_embeddings())

    def _linear(self, part: str) -> Iterator[str]:
        from torch.nn import Linear

        for name, module in self.model.get_submodule(part).named_modules(prefix=part):
            # A gate of one value is no layer: an adapter would be larger than it is.
            if isinstance(module, Linear) and module.out_features > 1:
                yield name

    def _name_of(self, module: Any) -> str:
        return next((name for name, one in self.model.named_modules() if one is module), "")
