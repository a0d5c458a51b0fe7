"""The libraries that training needs beyond the pack's own: asked for before anything is read, loaded or written.

Decision: they are looked up and not imported, so that asking costs nothing and a command without them ends with one line.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from ..backend.errors import SettingsError

TRAINERS = ("trl", "accelerate", "datasets")
"""What every training runs on."""


def missing(libraries: Sequence[str]) -> list[str]:
    """Those of the libraries that are not installed."""
    return [library for library in libraries if importlib.util.find_spec(library) is None]


def require(*libraries: str) -> None:
    """Raise SettingsError that names every one of the libraries that is not installed, and how to get them."""
    absent = missing(libraries)
    if not absent:
        return
    extra = {"bitsandbytes": "quantization"}
    extras = sorted({extra.get(library, "training") for library in absent})
    named = absent[0] if len(absent) == 1 else f"{', '.join(absent[:-1])} and {absent[-1]}"
    raise SettingsError(
        f"This needs {named}, not installed here.",
        f'Install: pip install "interleave-thinker[{",".join(extras)}]"',
    )
