"""Pydantic models of the answers of planner and critic, and their validation errors in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from ..errors import AnswerError
from ..types import MAX_STEPS, Several, Text
from .found_object import FoundObject
from .other_verdicts import bool_from_word

WORDS: Mapping[str, str] = {
    "missing": "it is missing",
    "string_type": "it must be a text",
    "string_too_long": "it must have at most {max_length} characters",
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
    "too_long": "it must have at most {max_length} entries",
}
"""Explanations of pydantic's error types, for users."""
MAX_SHOWN = 120


def _none_from_word(value: object) -> object:
    return None if isinstance(value, str) and value.strip().lower() in ("none", "null") else value


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


OptionalText = Annotated[Text | None, Field(strict=True), BeforeValidator(_none_from_word)]


class StepAnswer(_Answer):
    """A step as an agent writes it."""

    step_number: int = Field(ge=0)
    step_name: Annotated[Text | None, Field(strict=True)] = None
    instruction: OptionalText = None
    prompt: OptionalText = None
    auxiliary_text: OptionalText = None


class PlanAnswer(_Answer):
    """A plan as an agent writes it."""

    execution_plan: Several[StepAnswer] = Field(min_length=1, max_length=MAX_STEPS)


class VerdictAnswer(_Answer):
    """A verdict as an agent writes it."""

    previous_step_success: Annotated[bool, Field(strict=True), BeforeValidator(bool_from_word)]
    refine_prompt: OptionalText = None


def unfit(what: str, error: ValidationError, found: FoundObject) -> AnswerError:
    """Return the first problem as an AnswerError that names the path and the value.

    Example: `execution_plan[0].prompt is 5; it must be a text`.
    """
    first = error.errors(include_url=False)[0]
    if not first["loc"] and first["type"] == "value_error":
        return AnswerError(f"The {what} cannot be used: {reason_of(first)}.", found.raw)
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    shown = "" if first["type"] == "missing" else f" is {_shown(first.get('input'))}"
    return AnswerError(
        f"The {what} has the wrong format: {path or 'the answer'}{shown}; {reason_of(first)}.", found.raw
    )


def reason_of(fault: ErrorDetails) -> str:
    """Return the reason of an error without Python terms."""
    context = fault.get("ctx", {})
    if fault["type"] == "value_error":
        # These come from the validators of this package, whose texts are written for users.
        return str(context["error"])
    if fault["type"] in WORDS:
        return WORDS[fault["type"]].format(**context)
    return fault["msg"].replace("Input should be ", "it must be ")


def _shown(value: Any) -> str:
    """Return a value as it is written in an answer, shortened if it is long."""
    if isinstance(value, (list, tuple)) and not value:
        return "an empty list"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
