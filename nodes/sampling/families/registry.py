"""Registry of the model families: every `FAMILIES` of a module in one of the makers' folders.

A new family is one module there; nothing else names it.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from .encode_node import EncodeNode
from .family import AUTO, ENCODE, NOISE, REFERENCE, SHARED_METHODS, Family

PACKAGE = __name__.rpartition(".")[0]
FIRST_CHOICES = (
    AUTO,
    REFERENCE,
    NOISE,
    "flux kontext",
    "qwen image edit",
    "qwen image edit plus",
    "qwen image edit 2511",
    "omnigen2",
    "z-image omni",
    ENCODE,
)
"""Choices that are first in the list, in the order that they were added. They have translated labels."""


def _found() -> tuple[Family, ...]:
    here = Path(__file__).parent
    modules = sorted(path.relative_to(here).with_suffix("").parts for path in here.glob("*/[!_]*.py"))
    families = [one for names in modules for one in import_module(".".join((PACKAGE, *names))).FAMILIES]
    return tuple(sorted(families, key=lambda family: family.name.casefold()))


FAMILIES = _found()
"""All families, ordered by name."""
FURTHER_CHOICES = tuple(
    sorted({one.method for one in FAMILIES if one.method is not None} - {*FIRST_CHOICES, *SHARED_METHODS})
)
"""Choices that are names of families, after FIRST_CHOICES."""
EDIT_CHOICES = (*FIRST_CHOICES, *FURTHER_CHOICES)
"""Choices for the edit method."""


def families_of(model: str) -> tuple[Family, ...]:
    """Return the families of a host's model class that the pack can generate with."""
    return tuple(one for one in FAMILIES if model in one.models and one.method is not None)


def with_method(method: str) -> tuple[Family, ...]:
    """Return the families with this edit method."""
    return tuple(one for one in FAMILIES if one.method == method)


def chosen_family(model: str, method: str) -> Family | None:
    """Return the family of a model class with this edit method, `None` for a method of no family."""
    found = [one for one in with_method(method) if model in one.models]
    if not found and method in FURTHER_CHOICES:
        found = [*with_method(method)]  # its class could not be read
    return found[0] if found else None


def text_row(model: str) -> EncodeNode | None:
    """Return the encode node for prompts without images of this class, `None` for CLIP Text Encode."""
    rows = [one.row for one in families_of(model) if one.row is not None and one.row.draws_text]
    return rows[0] if rows else None
