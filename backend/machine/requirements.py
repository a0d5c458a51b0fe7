"""Checks that the libraries for training are installed, before anything is read, loaded or written.

Libraries are looked up without importing them, so the check is fast and a missing library is a one-line
error. A version that is too old is rejected like a missing library: trl before 1.15 (which needs Python 3.11)
knows only one end token, so it learns from what follows another one, before 1.14 it does not await the
reward, before 1.6 it counts a skipped sample as 0, and up to 1.9.1 it halves the gradient with two updates
per rollout.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from ..errors import SettingsError
from .libraries import is_too_old, least

TRAINERS = ("trl", "transformers", "accelerate", "datasets")
"""Libraries that every training needs."""
EXTRAS = {"bitsandbytes": "quantization", "vllm": "vllm", "datasketch": "data", "imagehash": "data"}


def missing(libraries: Sequence[str]) -> list[str]:
    """Return those of the libraries that are not installed."""
    return [library for library in libraries if importlib.util.find_spec(library) is None]


def outdated(libraries: Sequence[str]) -> list[str]:
    """Return the installed libraries that are too old, as "trl 1.9.0 (1.16 or newer)"."""
    found = []
    for library in libraries:
        try:
            here = version(library)
        except PackageNotFoundError:
            continue
        if is_too_old(library, here):
            found.append(f"{library} {here} ({least(library)} or newer)")
    return found


def require(*libraries: str) -> None:
    """Check that libraries are installed and new enough.

    Raises:
        SettingsError: Some are not. The message lists them, and the hint is the command that installs them.
    """
    absent = missing(libraries)
    if absent:
        raise SettingsError(f"This requires {_listed(absent)}, not installed here.", _how(absent))
    old = outdated(libraries)
    if old:
        raise SettingsError(
            f"These libraries are too old: {_listed(old)}.", _how([one.split()[0] for one in old])
        )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _how(libraries: Sequence[str]) -> str:
    extras = sorted({EXTRAS.get(library, "training") for library in libraries})
    return f'Install: pip install -U "interleave-thinker[{",".join(extras)}]"'
