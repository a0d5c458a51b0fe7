"""Describes how a training was made, for its report: model, data and their digests, libraries, all settings.

Settings are read from the same models as the command line's options, so that none can be missing. Changed
settings come first, since they are what users compare between trainings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from ....backend.machine.libraries import installed

LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "bitsandbytes", "vllm")
PRIVATE = ("url",)
"""Endings of setting names whose value may be a URL with a key in it."""


@dataclass(frozen=True)
class ShownSetting:
    """A setting in the report: option, value as text, whether this is the default, and description."""

    name: str
    value: str
    is_default: bool
    meaning: str


def shown_settings(*models: BaseModel) -> list[ShownSetting]:
    """Return every setting of these models, changed ones first, each with the name of its option."""
    found = []
    for model in models:
        for name, field in type(model).model_fields.items():
            value = getattr(model, name)
            text = "(given)" if value and name.endswith(PRIVATE) else _text(value)
            meaning = field.description or ""
            found.append(ShownSetting(name.replace("_", "-"), text, value == field.default, meaning))
    return sorted(found, key=lambda one: one.is_default)


def libraries() -> str:
    """Return the training libraries with their versions."""
    versions = ((name, installed(name)) for name in LIBRARIES)
    return ", ".join(f"{name} {version}" for name, version in versions if version)


def digests(counted: Iterable[tuple[str, int, str]]) -> Mapping[str, str]:
    """Return the number of rows and the digest of their content, by the purpose of the rows."""
    return {name: f"{count:,} (digest {digest})" for name, count, digest in counted}


def _text(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
