"""Which diffusers pipelines a workflow may name: folders in the host's diffusers folders, or hub ids in the
local cache.

Decision: a name is looked up, never joined to a path, so that a workflow from a stranger cannot make the host
read any folder of the machine.
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
    """Pipelines below the roots, one or two folders deep, by their name relative to the root."""
    found: dict[str, Path] = {}
    for root in roots:
        for index in sorted([*root.glob(f"*/{INDEX}"), *root.glob(f"*/*/{INDEX}")]):
            found.setdefault(index.parent.relative_to(root).as_posix(), index.parent)
    return found


def pipeline_spec(name: str, roots: Sequence[Path]) -> str:
    """Specification of a pipeline for `open_generator`; raises SettingsError naming what there is."""
    found = pipeline_folders(roots)
    name = name.strip()
    if name in found:
        return f"diffusers:{found[name]}"
    # A relative path that happens to look like a hub id would be read as a folder.
    if HUB_ID.match(name) and not Path(name).exists():
        return f"diffusers:{name}"
    places = " or ".join(repr(str(root)) for root in roots)
    there = ", ".join(list(found)[:LISTED]) or "nothing yet"
    raise SettingsError(
        (
            f"{name[:200]!r} is neither a diffusers pipeline in {places} (there: {there}) "
            "nor a hub id such as OWNER/NAME."
        ),
        f"Put the pipeline's folder, with its {INDEX}, there.",
    )
