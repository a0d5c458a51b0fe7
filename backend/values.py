"""What all stored values share: frozen, strict, their texts and lists bounded.

Decision: apart from types.py, which is what flows through the pipeline, so that a part of it can have a
module of its own.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field

MAX_TEXT = 100_000

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Item = TypeVar("Item")
Several = Annotated[tuple[Item, ...], FailFast()]
"""Values in order, of which the first fault is reported: a million faults would be a gigabyte."""


class Value(BaseModel):
    """Base of all stored values: frozen, and an unknown field is an error instead of a silent loss."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def written_without(written: dict[str, Any], value: Value, names: tuple[str, ...]) -> dict[str, Any]:
    """What is written of a value, without those of these fields that are empty."""
    return {name: one for name, one in written.items() if name not in names or getattr(value, name)}
