"""Finds the licenses of a benchmark's models, for the head of its results.

Only the model's own folder is read (the metadata of its model card names the license). For servers and models
elsewhere the license is unknown; nothing is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..backend.errors import SettingsError
from ..backend.files.bounded_reader import read_bytes_if_any
from ..backend.shown_text import one_line

ROLES = ("planner", "critic", "generator")
UNKNOWN = "license not known here"
OWN = {"tinyworld": "Apache-2.0", "none": "no model"}
CARD = "README.md"
MAX_CARD = 4 * 1024 * 1024
LICENCE = re.compile(rb"^license(?:_name)?:[ \t]*[\"']?([A-Za-z0-9][A-Za-z0-9._+ -]{0,60})", re.MULTILINE)
MAX_HEAD = 16 * 1024


def licences_of(models: Mapping[str, Any]) -> dict[str, str]:
    """Return the licenses by role."""
    return {role: _licence(str(models[role])) for role in ROLES if models.get(role)}


def _licence(spec: str) -> str:
    name, _, argument = spec.partition(":")
    if name in OWN:
        return OWN[name]
    folder = Path(argument).expanduser() if argument else None
    if name not in ("transformers", "diffusers", "llamacpp") or folder is None:
        return UNKNOWN
    card = (folder if folder.suffix != ".gguf" else folder.parent) / CARD
    try:
        content = read_bytes_if_any(card, MAX_CARD, SettingsError, "Card")
    except SettingsError:
        return UNKNOWN
    head = (content or b"")[:MAX_HEAD].partition(b"---")[2].partition(b"\n---")[0]
    found = LICENCE.findall(head)
    # A license with its own name follows after "other".
    return one_line(found[-1].decode().strip()) if found else UNKNOWN
