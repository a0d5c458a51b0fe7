"""The libraries that training needs beyond the pack's own: asked for before anything is read, loaded or
written.

Decisions. They are looked up and not imported, so that asking costs nothing and a command without them ends
with one line. One that is too old is refused like one that is not there: trl before 1.14 does not await the
reward, before 1.6 counts a sample that is left out as 0, and up to 1.9.1 halves the gradient of two updates a
rollout; neither of the last two reports it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from ..errors import SettingsError
from .libraries import is_too_old, least

TRAINERS = ("trl", "transformers", "accelerate", "datasets")
"""What every training runs on."""
EXTRAS = {"bitsandbytes": "quantization", "vllm": "vllm", "datasketch": "data", "imagehash": "data"}


def missing(libraries: Sequence[str]) -> list[str]:
    """Those of the libraries that are not installed."""
    return [library for library in libraries if importlib.util.find_spec(library) is None]


def outdated(libraries: Sequence[str]) -> list[str]:
    """Those of the libraries that are installed but too old, as "trl 1.9.0 (1.14 or newer)"."""
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
    """Raise SettingsError that names every one of the libraries that is not installed or too old, and how to
    get them."""
    absent = missing(libraries)
    if absent:
        raise SettingsError(f"This needs {_listed(absent)}, not installed here.", _how(absent))
    old = outdated(libraries)
    if old:
        raise SettingsError(f"Too old for training: {_listed(old)}.", _how([one.split()[0] for one in old]))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _how(libraries: Sequence[str]) -> str:
    extras = sorted({EXTRAS.get(library, "training") for library in libraries})
    return f'Install: pip install -U "interleave-thinker[{",".join(extras)}]"'
