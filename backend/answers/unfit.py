"""Explains validation errors of answers and plans in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ..errors import AnswerError
from .found_object import FoundObject

WORDS: Mapping[str, str] = {
    "missing": "it is missing",
    "string_type": "it must be a text",
    "string_too_long": "it may have at most {max_length} characters",
    "string_too_short": "it must have at least {min_length} characters",
    "int_type": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "int_parsing_size": "it must be a whole number of at most 15 digits",
    "int_from_float": "it must be a whole number",
    "bool_type": "it must be true or false",
    "bool_parsing": "it must be true or false",
    "finite_number": "it must be a finite number",
    "greater_than_equal": "it must be at least {ge}",
    "less_than_equal": "it must be at most {le}",
    "tuple_type": "it must be a list",
    "list_type": "it must be a list",
    "model_type": "it must be an object with keys",
    "model_attributes_type": "it must be an object with keys",
    "dict_type": "it must be an object with keys",
    "too_short": "it must have at least {min_length} entries",
    "too_long": "it may have at most {max_length} entries",
}
"""Explanations of pydantic's error types for users."""
MAX_SHOWN = 120


def unfit(what: str, error: ValidationError, found: FoundObject) -> AnswerError:
    """The first problem as an AnswerError that names the path and the value, such as
    `execution_plan[0].prompt is 5; it must be a text`."""
    first = error.errors(include_url=False)[0]
    if not first["loc"] and first["type"] == "value_error":
        return AnswerError(f"The {what} cannot be used: {reason_of(first)}.", found.raw)
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    shown = "" if first["type"] == "missing" else f" is {_shown(first.get('input'))}"
    return AnswerError(
        f"The {what} does not have its form: {path or 'the answer'}{shown}; {reason_of(first)}.", found.raw
    )


def reason_of(fault: ErrorDetails) -> str:
    """Return the reason of an error without Python terms."""
    context = fault.get("ctx", {})
    if fault["type"] == "value_error":
        # Our own validators: their texts are written for people.
        return str(context["error"])
    if fault["type"] in WORDS:
        return WORDS[fault["type"]].format(**context)
    return fault["msg"].replace("Input should be ", "it must be ")


def _shown(value: Any) -> str:
    """A value as an answer writes it, cut where it is long."""
    if isinstance(value, (list, tuple)) and not value:
        return "an empty list"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
