"""Reads the configuration and the weights of a LoRA adapter, for agents, merging and training.

The configuration is untrusted. peft reads several of its fields as regular expressions, which can hang a
process. These fields are therefore never passed to peft: the modules are derived from the weight file, and a
pattern is used only here and only if it is a plain name. Tools and versions name the same weights in several
ways: with or without the prefix `base_model.model.`, with the adapter's name, or with the module names of
older layouts. Libraries silently skip names they do not find. Here every weight must match exactly one module
of the right size, or the adapter is rejected.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ...core.errors import ChatError

MAX_RANK = 4096
MAX_ALPHA = sys.float_info.max
MAX_PATTERN = 20_000
"""Maximum length of a pattern.

The patterns written by this package's training have about 1,000 characters.
"""
MAX_PATTERNS = 4096
MAX_PATTERNS_LENGTH = 200_000
"""Maximum length of all patterns of a field together.

Each is matched with the name of every adapted module.
"""
PLAIN_NAME = re.compile(r"(?:[\w-]|\.)+")
PLAIN_PATTERN = re.compile(r"\^?(?:[\w-]|\\?\.|\\-|\\d\+)+\$?(?:\|\^?(?:[\w-]|\\?\.|\\-|\\d\+)+\$?)*")
"""Names with alternatives and open layer numbers. Such a pattern can match in one way only."""
PREFIX = "base_model.model."
FILE = "adapter_model.safetensors"
MATRICES = ("lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B", "lora_magnitude_vector")
WHOLE = "modules_to_save"
OLDER = ("model.language_model.", "language_model.model.", "language_model.", "model.", "")
"""Prefixes of the language model's modules in older layouts."""
OTHER_MODEL = "Check that the adapter was trained on this base model."
INCOMPLETE = f"{OTHER_MODEL} If it was, the file is incomplete: download it again."


def check_fields(config: Mapping[str, Any], folder: Path) -> None:
    """Check that a configuration describes a plain LoRA adapter with all of its own weights.

    Raises:
        ChatError: A value is out of range, or a pattern is not a plain name.
    """
    where = f"The adapter in {str(folder)!r}"
    for name in ("rank_pattern", "alpha_pattern"):
        patterns = config.get(name) or {}
        if not isinstance(patterns, dict) or len(patterns) > MAX_PATTERNS:
            raise ChatError(
                f"{where} has an invalid {name!r}: expected an object of at most {MAX_PATTERNS} names."
            )
        if sum(map(len, patterns)) > MAX_PATTERNS_LENGTH:
            raise ChatError(f"{where} has a {name!r} longer than {MAX_PATTERNS_LENGTH:,} characters.")
        for pattern in patterns:
            if len(pattern) > MAX_PATTERN or not PLAIN_PATTERN.fullmatch(pattern):
                raise ChatError(
                    f"{where} has the pattern {pattern[:100]!r} in {name!r}, which is not a plain module "
                    "name.",
                    "Write module names, with '|' between alternatives and '\\d+' for a layer number.",
                )
    for name, value in (("r", config.get("r", 8)), *(config.get("rank_pattern") or {}).items()):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_RANK:
            raise ChatError(
                f"{where} has the rank {str(value)[:20]} ({name[:100]}); expected 1 to {MAX_RANK}."
            )
    alphas = (("lora_alpha", config.get("lora_alpha", 8)), *(config.get("alpha_pattern") or {}).items())
    for name, value in alphas:
        # An integer can be too large for a float, and NaN compares as False.
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_ALPHA:
            raise ChatError(f"{where} has the alpha {str(value)[:20]!r} ({name[:100]}); expected a number.")


@dataclass(frozen=True)
class AdapterConfig:
    """The fields of an `adapter_config.json` that `check_fields` has accepted."""

    values: Mapping[str, Any]

    def rank(self, *names: str) -> int:
        """Return the rank of a module, which may have several names."""
        return self._of(self._ranks, names, self.values.get("r", 8))

    def alpha(self, *names: str) -> float:
        """Return the alpha of a module, which may have several names."""
        return self._of(self._alphas, names, self.values.get("lora_alpha", 8))

    def has(self, flag: str) -> bool:
        """Return whether a switch such as `use_dora` is on."""
        return bool(self.values.get(flag))

    @cached_property
    def whole_modules(self) -> tuple[str, ...]:
        """Names, or name endings, of modules whose full weights are in the adapter."""
        named = self.values.get("modules_to_save") or ()
        named = (named,) if isinstance(named, str) else named
        return tuple(name for name in named if isinstance(name, str) and PLAIN_NAME.fullmatch(name))

    def names(self, candidates: Iterable[str]) -> frozenset[str]:
        """Return the candidates that the configuration adapts.

        The result is empty if the configuration selects modules in a way that is not supported here.
        """
        values = self.values
        if values.get("layers_to_transform") not in (None, []) or values.get("exclude_modules"):
            return frozenset()
        target = values.get("target_modules")
        if isinstance(target, str):
            if len(target) > MAX_PATTERN or not PLAIN_PATTERN.fullmatch(target):
                return frozenset()
            pattern = re.compile(target)
            found = (name for name in candidates if pattern.fullmatch(name))
        elif isinstance(target, list) and all(isinstance(one, str) for one in target):
            ends = tuple(f".{one}" for one in target)
            found = (name for name in candidates if name in target or name.endswith(ends))
        else:
            return frozenset()
        return frozenset(name for name in found if not self.is_whole(name))

    def is_whole(self, name: str) -> bool:
        """Return whether the adapter contains the full weights of a module or of one that contains it."""
        return any(f".{whole}." in f".{name}." for whole in self.whole_modules)

    @cached_property
    def _ranks(self) -> list[tuple[re.Pattern[str], Any]]:
        return _compiled(self.values.get("rank_pattern"))

    @cached_property
    def _alphas(self) -> list[tuple[re.Pattern[str], Any]]:
        return _compiled(self.values.get("alpha_pattern"))

    @staticmethod
    def _of(patterns: list[tuple[re.Pattern[str], Any]], names: tuple[str, ...], otherwise: Any) -> Any:
        return next(
            (value for pattern, value in patterns for name in names if pattern.match(name)), otherwise
        )


def _compiled(patterns: Mapping[str, Any] | None) -> list[tuple[re.Pattern[str], Any]]:
    # Match as peft does: up to the end of the name, starting at any of its parts.
    return [(re.compile(rf"(.*\.)?({pattern})$"), value) for pattern, value in (patterns or {}).items()]


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


def weights_for(
    model: Any, folder: Path, config: AdapterConfig, own: Callable[[str], Any] | None = None
) -> AdapterWeights:
    """Assign every weight of an adapter folder to a module of `model`.

    peft repeats the base's embeddings and output layer if one of them is adapted. Such copies are ignored.

    Args:
        model: Base model.
        folder: Adapter folder that `check_adapter` has accepted.
        config: Configuration of the adapter.
        own: Returns a weight of the base by name, for a model without weights (device meta).

    Raises:
        ChatError: A weight matches no module, several modules or one of another size, or a weight is missing.
    """
    return _Reading(model, folder, config, own).read()


def own_module(path: str, modules: Container[str], aliases: Mapping[str, str]) -> list[str]:
    """Return the modules that a name means, which another tool or an older version may have written."""
    if path in modules:
        return [path]
    starts = ((prefix, part) for prefix, part in aliases.items() if path.startswith(prefix))
    found = {f"{part}{path[len(prefix) :]}" for prefix, part in starts}
    return [name for name in found if name in modules]


def plain_module(module: Any) -> Any:
    """Return the base model's own module, which peft may have wrapped."""
    for name in ("base_layer", "original_module"):
        module = getattr(module, name, module)
    return module


class _Reading:
    """Assigns the weights of one adapter."""

    def __init__(
        self, model: Any, folder: Path, config: AdapterConfig, own: Callable[[str], Any] | None
    ) -> None:
        self.where = f"The adapter {str(folder)!r}"
        self.file = folder / FILE
        self.config = config
        self.modules = {
            name: plain_module(one) for name, one in model.named_modules() if ".base_layer" not in f".{name}"
        }
        self.aliases = dict(aliases_of(model))
        self.own = own or self._own
        self.repeated: dict[str, str] = {}
        self.found: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {}
        self.paths: dict[str, str] = {}
        self.whole: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {}
        self.adapter_names: set[str] = set()

    def read(self) -> AdapterWeights:
        from safetensors import safe_open

        with safe_open(self.file, framework="np") as weights:
            for key in weights.keys():  # noqa: SIM118 - not a dict
                self._assign(key, tuple(weights.get_slice(key).get_shape()))
        self._check_repeated()
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
        module = self._module(holder.removesuffix(".base_layer"), key)
        # The configuration names the full module, which may contain the module of this weight.
        for end in self.config.whole_modules:
            before, marked, inside = f".{module}.".rpartition(f".{end}.")
            if marked:
                whole = f"{before}.{end}".lstrip(".")
                weight = f"{inside}{leaf}" if inside else leaf
                self._put(self.whole.setdefault(whole, {}), weight, key, shape)
                return
        self.repeated[f"{module}.{leaf}"] = key

    def _own(self, name: str) -> Any:
        module, _, leaf = name.rpartition(".")
        return getattr(self.modules[module], leaf, None)

    def _check_repeated(self) -> None:
        """Check that weights which are neither LoRA nor listed are those of the base model."""
        from safetensors import safe_open

        for name, key in self.repeated.items():
            own = self.own(name)
            with safe_open(self.file, framework="pt") as weights:
                given = weights.get_tensor(key)
            own = given[:0] if own is None else own.detach().cpu()
            # Either may have been stored in a shorter dtype.
            if not (given.to(own.dtype).equal(own) or own.to(given.dtype).equal(given)):
                raise ChatError(
                    f"{self.where} contains the weight {key[:200]!r}, which its configuration does not list "
                    "and which is not that of the base model.",
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
        fitting = own_module(path, self.modules, self.aliases)
        if len(fitting) != 1:
            raise ChatError(
                f"{self.where} contains weights for the module {path[:200]!r} ({key[:200]!r}), which this "
                "base model "
                f"{'has several times' if fitting else 'does not have'}.",
                OTHER_MODEL,
            )
        return fitting[0]

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
                    INCOMPLETE,
                )
        for end in self.config.whole_modules:
            if not any(f".{name}".endswith(f".{end}") for name in self.whole) and any(
                f".{name}".endswith(f".{end}") for name in self.modules
            ):
                raise ChatError(
                    f"{self.where} lacks the weights of {end!r}, which its configuration lists in "
                    "modules_to_save.",
                    INCOMPLETE,
                )


def aliases_of(model: Any) -> Iterator[tuple[str, str]]:
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
