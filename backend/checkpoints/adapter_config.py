"""Reads the configuration of a LoRA adapter: rank, scale and the modules it names.

The configuration is untrusted. peft reads several of its fields as regular expressions, which can hang a
process. These fields are therefore never passed to peft: the modules are derived from the weight file
(adapter_weights.py), and a pattern is used only here and only if it is a plain name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import ChatError

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
UNSUPPORTED = (
    "megatron_config",
    "layer_replication",
    "target_parameters",
    "trainable_token_indices",
    "velora_config",
    "alora_invocation_tokens",
    "use_qalora",
    "use_bdlora",
    "monteclora_config",
    "arrow_config",
    "kasa_config",
    "ensure_weight_tying",
)
"""Fields of peft that change which weights exist or how they are computed. The first imports a module."""


def check_fields(config: Mapping[str, Any], folder: Path) -> None:
    """Check that a configuration describes a plain LoRA adapter with all of its own weights.

    Raises:
        ChatError: A field is unsupported, or a value is out of range.
    """
    where = f"The adapter in {str(folder)!r}"
    for name in UNSUPPORTED:
        if config.get(name) not in (None, False, [], {}, ""):
            raise ChatError(f"{where} uses {name!r}, which is not supported.", "Merge it with its own tool.")
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
