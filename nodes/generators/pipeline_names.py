"""Diffusers pipelines that a workflow may name: folders in the host's folders, and Hugging Face ids.

A name is looked up, never joined to a path, so a workflow from a stranger cannot make the host read other
folders.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ...backend.errors import SettingsError

INDEX = "model_index.json"
HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")
LISTED = 20


def pipeline_folders(roots: Sequence[Path]) -> dict[str, Path]:
    """Return the pipelines below the roots, one or two folders deep, by their path relative to the root."""
    found: dict[str, Path] = {}
    for root in roots:
        for index in sorted([*root.glob(f"*/{INDEX}"), *root.glob(f"*/*/{INDEX}")]):
            found.setdefault(index.parent.relative_to(root).as_posix(), index.parent)
    return found


def pipeline_spec(name: str, roots: Sequence[Path]) -> str:
    """Return the specification of a pipeline for `open_generator`.

    Raises:
        SettingsError: It was not found. The message lists those found.
    """
    found = pipeline_folders(roots)
    name = name.strip()
    if name in found:
        return f"diffusers:{found[name]}"
    # A relative path that happens to look like a hub id would be read as a folder.
    if HUB_ID.match(name) and not Path(name).exists():
        return f"diffusers:{name}"
    places = " or ".join(repr(str(root)) for root in roots)
    listed = ", ".join(list(found)[:LISTED]) or "none yet"
    raise SettingsError(
        f"The diffusers pipeline {name[:200]!r} was not found in {places} (found: {listed}), and it is not a "
        "Hugging Face id such as OWNER/NAME.",
        f"Put the pipeline's folder, with its {INDEX}, there.",
    )
