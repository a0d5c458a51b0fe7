"""What a training's page says of how it was made: model, data and their digests, libraries, and every
setting.

Decision: settings are read off the models that the command line is made of, so none can be left out, and
those that were changed come first: they are what somebody compares two trainings by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from ....backend.machine.libraries import installed

LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "bitsandbytes", "vllm")
PRIVATE = ("url",)
"""Ends of the names of settings that may hold an address with a key in it."""


@dataclass(frozen=True)
class ShownSetting:
    """A setting as the page shows it: its option, its value as text, whether that is the default, and what it
    means."""

    name: str
    value: str
    is_default: bool
    meaning: str


def shown_settings(*models: BaseModel) -> list[ShownSetting]:
    """Every setting of these models, the changed ones first, each named as its option of the command."""
    found = []
    for model in models:
        for name, field in type(model).model_fields.items():
            value = getattr(model, name)
            text = "(given)" if value and name.endswith(PRIVATE) else _text(value)
            meaning = field.description or ""
            found.append(ShownSetting(name.replace("_", "-"), text, value == field.default, meaning))
    return sorted(found, key=lambda one: one.is_default)


def libraries() -> str:
    """The training libraries with their versions."""
    versions = ((name, installed(name)) for name in LIBRARIES)
    return ", ".join(f"{name} {version}" for name, version in versions if version)


def digests(counted: Iterable[tuple[str, int, str]]) -> Mapping[str, str]:
    """Lines on sets of rows by what they are for: how many, and the digest of their content."""
    return {name: f"{count:,} (digest {digest})" for name, count, digest in counted}


def _text(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
