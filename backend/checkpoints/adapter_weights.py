"""Assigns each weight of a LoRA adapter to a module of the base model, for agents, merging and training.

Tools and versions name the same weights in several ways: with or without the prefix `base_model.model.`, with
the adapter's name, or with the module names of older layouts. Libraries silently skip names they do not find.
Here every weight must match exactly one module of the right size, or the adapter is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ChatError
from .adapter_config import AdapterConfig

PREFIX = "base_model.model."
FILE = "adapter_model.safetensors"
MATRICES = ("lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B", "lora_magnitude_vector")
WHOLE = "modules_to_save"
OLDER = ("model.language_model.", "language_model.model.", "language_model.", "model.", "")
"""Prefixes of the language model's modules in older layouts."""
OTHER_MODEL = "Check that the adapter was trained on this base model."


@dataclass(frozen=True)
class AdapterWeights:
    """Names, ranks and alphas of an adapter's weights, by module."""

    keys: Mapping[str, str]
    """Name of each weight in the file, by the name that peft expects."""
    ranks: Mapping[str, int]
    """Rank by module."""
    alphas: Mapping[str, float]
    whole: tuple[str, ...]
    """Modules whose full weights are in the adapter."""

    @property
    def modules(self) -> tuple[str, ...]:
        """All modules that the adapter changes."""
        return (*self.ranks, *self.whole)


def weights_for(model: Any, folder: Path, config: AdapterConfig) -> AdapterWeights:
    """Assign every weight of an adapter folder to a module of `model`.

    Args:
        model: Base model.
        folder: Adapter folder that `check_adapter` has accepted.
        config: Configuration of the adapter.

    Raises:
        ChatError: A weight matches no module, several modules or one of another size, or a weight is missing.
    """
    return _Reading(model, folder, config).read()


def plain_module(module: Any) -> Any:
    """Return the base model's own module, which peft may have wrapped."""
    for name in ("base_layer", "original_module"):
        module = getattr(module, name, module)
    return module


class _Reading:
    """Assigns the weights of one adapter."""

    def __init__(self, model: Any, folder: Path, config: AdapterConfig) -> None:
        self.where = f"The adapter {str(folder)!r}"
        self.file = folder / FILE
        self.config = config
        self.modules = {
            name: plain_module(one) for name, one in model.named_modules() if ".base_layer" not in f".{name}"
        }
        self.aliases = dict(_aliases(model))
        self.found: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {}
        self.paths: dict[str, str] = {}
        self.whole: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {}
        self.adapter_names: set[str] = set()

    def read(self) -> AdapterWeights:
        from safetensors import safe_open

        with safe_open(self.file, framework="np") as weights:
            for key in weights.keys():  # noqa: SIM118 - not a dict
                self._assign(key, tuple(weights.get_slice(key).get_shape()))
        if not self.found:
            raise ChatError(f"{self.where} does not contain LoRA weights for this base model.", OTHER_MODEL)
        if len(self.adapter_names) > 1:
            raise ChatError(
                f"{self.where} contains several adapters: {', '.join(sorted(self.adapter_names))}.",
                "Save each one in a folder of its own.",
            )
        for module, matrices in self.found.items():
            self._check_matrices(module, matrices)
        for module, weights in self.whole.items():
            self._check_whole(module, weights)
        self._check_complete()
        keys = {
            f"{PREFIX}{module}.{name}": key
            for part in (self.found, self.whole)
            for module, weights in part.items()
            for name, (key, _) in weights.items()
        }
        names = {module: (self.paths[module], module) for module in self.found}
        ranks = {module: self.config.rank(*both) for module, both in names.items()}
        alphas = {module: self.config.alpha(*both) for module, both in names.items()}
        return AdapterWeights(keys, ranks, alphas, tuple(self.whole))

    def _assign(self, key: str, shape: tuple[int, ...]) -> None:
        name = key.removeprefix(PREFIX)
        for matrix in MATRICES:
            path, marked, rest = name.partition(f".{matrix}")
            if marked and (not rest or rest.startswith(".")):
                weight = f"{matrix}{self._leaf(key, matrix, rest)}"
                module = self._module(path, key)
                self.paths[module] = path
                self._put(self.found.setdefault(module, {}), weight, key, shape)
                return
        path, marked, rest = name.partition(f".{WHOLE}.")
        if marked:
            adapter, _, rest = rest.partition(".")
            self.adapter_names.add(adapter)
            name = f"{path}.{rest}"
        holder, _, leaf = name.rpartition(".")
        module = self._module(holder, key)
        # The configuration names the full module, which may contain the module of this weight.
        for end in self.config.whole_modules:
            before, marked, inside = f".{module}.".rpartition(f".{end}.")
            if marked:
                whole = f"{before}.{end}".lstrip(".")
                weight = f"{inside}{leaf}" if inside else leaf
                self._put(self.whole.setdefault(whole, {}), weight, key, shape)
                return
        raise ChatError(
            f"{self.where} contains the weight {key[:200]!r}, which its configuration does not list.",
            "Only LoRA weights and the modules listed in modules_to_save are supported.",
        )

    def _leaf(self, key: str, matrix: str, rest: str) -> str:
        """Return the end of a weight's name as peft expects it, without the adapter's name."""
        parts = [part for part in rest.split(".") if part]
        leaf = parts.pop() if parts and parts[-1] in ("weight", "bias") else ""
        if len(parts) > 1 or (leaf == "bias" and matrix != "lora_B"):
            raise ChatError(f"{self.where} contains the weight {key[:200]!r} of an unknown kind.")
        self.adapter_names.update(parts)
        if matrix in ("lora_A", "lora_B"):
            return f".{leaf or 'weight'}"
        return ""

    def _module(self, path: str, key: str) -> str:
        if path in self.modules:
            return path
        fitting = {
            name
            for prefix, part in self.aliases.items()
            if path.startswith(prefix) and (name := f"{part}{path[len(prefix) :]}") in self.modules
        }
        if len(fitting) != 1:
            raise ChatError(
                f"{self.where} contains weights for the module {path[:200]!r} ({key[:200]!r}), which this "
                "base model "
                f"{'has several times' if fitting else 'does not have'}.",
                OTHER_MODEL,
            )
        return fitting.pop()

    def _put(
        self, weights: dict[str, tuple[str, tuple[int, ...]]], name: str, key: str, shape: tuple[int, ...]
    ) -> None:
        if name in weights:
            raise ChatError(
                f"{self.where} contains the same weight twice: {key[:200]!r} and {weights[name][0][:200]!r}."
            )
        weights[name] = (key, shape)

    def _check_matrices(self, module: str, matrices: dict[str, tuple[str, tuple[int, ...]]]) -> None:
        shapes = {name: shape for name, (_, shape) in matrices.items()}
        rank = self.config.rank(self.paths[module], module)
        expected = self._wanted(module, rank)
        for name in sorted(expected.keys() - shapes.keys()):
            raise ChatError(f"{self.where} lacks the weight {name!r} of {module!r}.", "Download it again.")
        for name in sorted(shapes.keys() - expected.keys()):
            raise ChatError(
                f"{self.where} contains {name!r} of {module!r}, which its configuration does not list."
            )
        for name, shape in shapes.items():
            if shape != expected[name]:
                raise ChatError(
                    f"{self.where} does not fit this base model at {module!r}: "
                    f"{name} has the shape {shape}, but rank {rank} needs {expected[name]}.",
                    OTHER_MODEL,
                )

    def _wanted(self, module: str, rank: int) -> dict[str, tuple[int, ...]]:
        """Return the weights of an adapter of this rank for a module, with their shapes."""
        from torch.nn import Embedding, Linear

        own = self.modules[module]
        if isinstance(own, Embedding):
            a, b = (rank, own.num_embeddings), (own.embedding_dim, rank)
            expected = {"lora_embedding_A": a, "lora_embedding_B": b}
            return expected | ({"lora_magnitude_vector": b[:1]} if self.config.has("use_dora") else {})
        if not isinstance(own, Linear):
            raise ChatError(
                f"{self.where} adapts {module!r}, which is a {type(own).__name__} and not a linear layer.",
                OTHER_MODEL,
            )
        expected: dict[str, tuple[int, ...]] = {
            "lora_A.weight": (rank, own.in_features),
            "lora_B.weight": (own.out_features, rank),
        }
        if self.config.has("lora_bias"):
            expected["lora_B.bias"] = (own.out_features,)
        if self.config.has("use_dora"):
            expected["lora_magnitude_vector"] = (own.out_features,)
        return expected

    def _check_whole(self, module: str, weights: dict[str, tuple[str, tuple[int, ...]]]) -> None:
        own = {name: tuple(one.shape) for name, one in self.modules[module].state_dict().items()}
        given = {name: shape for name, (_, shape) in weights.items()}
        if own != given:
            at = sorted(name for name in {**own, **given} if own.get(name) != given.get(name))[0]
            raise ChatError(
                f"{self.where} does not fit this base model at {f'{module}.{at}'!r}: it has the shape "
                f"{given.get(at, 'none')}, but the base model has {own.get(at, 'none')}.",
                OTHER_MODEL,
            )

    def _check_complete(self) -> None:
        """Check that no weights are missing.

        Raises:
            ChatError: The file lacks the weights of a module that the configuration names and whose part of
                the model is adapted.
        """
        from torch.nn import Embedding, Linear

        layers = [name for name, one in self.modules.items() if isinstance(one, Embedding | Linear)]
        parts = set(self.aliases.values())
        touched = tuple(part for part in parts if any(name.startswith(part) for name in self.found))
        for name in sorted(self.config.names(layers) - self.found.keys()):
            if name.startswith(touched):
                raise ChatError(
                    f"{self.where} lacks the weights of {name!r}, which its configuration lists.",
                    "The file may be incomplete: download it again.",
                )
        for end in self.config.whole_modules:
            if not any(f".{name}".endswith(f".{end}") for name in self.whole) and any(
                f".{name}".endswith(f".{end}") for name in self.modules
            ):
                raise ChatError(
                    f"{self.where} lacks the weights of {end!r}, which its configuration lists in "
                    "modules_to_save.",
                    "The file may be incomplete: download it again.",
                )


def _aliases(model: Any) -> Iterator[tuple[str, str]]:
    """Yield the prefixes of module names in other layouts, each with its equivalent in this model."""
    names = {id(one): name for name, one in model.named_modules()}
    language = names[id(model.get_decoder())]
    around, _, _ = language.rpartition(".")
    parent = model.get_submodule(around)
    before = f"{around}." if around else ""
    for name, _ in parent.named_children():
        part = f"{before}{name}."
        if part != f"{language}.":
            yield f"{name}.", part
            yield f"model.{name}.", part
    yield from ((prefix, f"{language}.") for prefix in OLDER)
    head = names.get(id(model.get_output_embeddings()))
    if head:
        yield f"language_model.{head}", head
        yield f"model.{head}", head
