"""Pydantic models of the answers of planner and critic."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..errors import AnswerError, first_fault
from ..types import MAX_STEPS, Several, Text
from .objects import FoundObject
from .other_forms import bool_from_word

MAX_PROMPT = 8_000
"""Maximum length, in characters, of a prompt that an agent may write.

The encoders of image models read 512 to 1,024 tokens, about 4,000 characters. Hosts encode a longer text
completely, in quadratic time."""

PLACEHOLDERS = (
    "a short title",
    "what this step is to show, in one sentence",
    "what the image model is told, or null",
    "words for the reader, or null",
    "the prompt to draw with",
    "1. what happens in the first step",
    "2. what happens in the second step",
    "style, place, looks",
    "what is true after step {last}",
    "your prompt here",
)
TYPES = frozenset(
    ("string", "str", "text", "prompt", "imageprompt", "instruction", "auxiliarytext", "stepname")
)
"""Types and keys of values, which models write in the place of values. `Text 1` is a text: digits count."""
MAX_PLACEHOLDER_LENGTH = 200
"""Maximum length, in characters, of a text that is checked for being a placeholder."""
SLOT = re.compile(r"\{\w+\}")
NOT_LETTERS = re.compile(r"[\W\d_]+")
NOT_IN_WORDS = re.compile(r"[\W_]+")
OR_NULL = re.compile(r"\W*\bor\s+(?:null|none|empty|\"\")\W*$", re.IGNORECASE)
ONLY_SLOT = re.compile(r"\s*(?:\{[^\W\d]\w{0,40}\}|<\w[^<>/]*[ _-]\w[^<>/]*>)\s*")
"""A slot without its value: `{prompt}`, `<what the image shows>`."""
ONLY_DOTS = re.compile(r"\W*(?:\.\.\.|…)\W*")
MAX_SHOWN = 120


def _normal(text: str) -> str:
    """Return only the letters of a text, without an "or null" at its end, for comparison."""
    return NOT_LETTERS.sub("", OR_NULL.sub("", SLOT.sub("", text))).casefold()


_NORMAL = frozenset(map(_normal, PLACEHOLDERS))


def is_placeholder(text: str) -> bool:
    """Return whether a text is a placeholder of a template, the name or type of its value, or only dots.

    Case, spaces and punctuation do not count.
    """
    if len(text) > MAX_PLACEHOLDER_LENGTH:
        return False
    named = NOT_IN_WORDS.sub("", OR_NULL.sub("", text)).casefold()
    only = ONLY_DOTS.fullmatch(text) or ONLY_SLOT.fullmatch(text)
    return _normal(text) in _NORMAL or named in TYPES or only is not None


def check_text(name: str, text: str | None) -> None:
    """Check that a text is not a placeholder.

    Raises:
        AnswerError: It is one.
    """
    if text and is_placeholder(text):
        raise AnswerError(
            f"{name} is a copy of the example in the answer format.",
            text,
            "Replace it with real content.",
        )


def check_prompt(name: str, text: str | None) -> None:
    """Check that a prompt is neither a placeholder nor too long.

    Raises:
        AnswerError: It is one of these.
    """
    check_text(name, text)
    if text and len(text) > MAX_PROMPT:
        raise AnswerError(
            f"{name} has {len(text)} characters; the maximum is {MAX_PROMPT}.",
            text,
            "Write a shorter prompt.",
        )


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
    fault = first_fault(error)
    if not fault.loc and fault.kind == "value_error":
        return AnswerError(f"The {what} cannot be used: {fault.reason}.", found.raw)
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault.loc).lstrip(".")
    shown = "" if fault.kind == "missing" else f" is {_shown(fault.value)}"
    return AnswerError(
        f"The {what} has the wrong format: {path or 'the answer'}{shown}; {fault.reason}.", found.raw
    )


def _shown(value: Any) -> str:
    """Return a value as it is written in an answer, shortened if it is long."""
    if isinstance(value, (list, tuple)) and not value:
        return "an empty list"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
