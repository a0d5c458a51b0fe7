"""Checks texts of an answer before they are used: no placeholders of a prompt template, no excessive length.

Small models repeat the placeholders of a template's answer format instead of writing their own texts.
PLACEHOLDERS contains those of all versions of the templates. A test compares it with the templates, and
nothing is removed.
"""

from __future__ import annotations

import re

from ..errors import AnswerError

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
