"""What names the maker of a draw in its key, with what a single step adds to it.

Decision: it stands beside the generators, since whoever writes a run's records anew (a copy of a story) names
their makers as the loop did.
"""

from __future__ import annotations

import hashlib
import json

from .types import MAX_TEXT, StepSettings


def step_identity(identity: str, settings: StepSettings) -> str:
    """The identity of a generator that draws with a step's own settings: its own where there are none."""
    given = settings.of_draw
    return bounded_identity(f"{identity} step={json.dumps(given, sort_keys=True)}") if given else identity


def bounded_identity(text: str) -> str:
    """`text` as it is up to MAX_TEXT characters, the most that a record holds; of a longer one (a huge
    negative prompt, hundreds of references) the beginning and the SHA-256 digest of the whole."""
    if len(text) <= MAX_TEXT:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:1000]}... sha256={digest}"
