"""Regular expressions in a stranger's files that a library will match against module names.

Reason: Python's `re` tries every way in which a pattern can match, so a short pattern can keep it busy for
years. A pattern is let through only if the number of ways is small for names of modules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..errors import InterleaveError

LONGEST = 20_000
MOST_REPEATS = 3
"""Unbounded repeats of something other than a digit in one alternative: a name has about 100 characters."""
MOST_GROUPS = 12
REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{)")
REPEAT = re.compile(r"(?<!\\d)(?<!\\)(?:[*+]|\{\d*,\d*\})")
DIGITS = re.compile(r"(?:\\d[*+]){2}")


def check_pattern(pattern: str, kind: type[InterleaveError], where: str) -> None:
    """Raise `kind` for a pattern that could take very long. `where` names the file and the field."""
    # Within groups, alternatives follow one another.
    parts = [pattern] if "(" in pattern else pattern.split("|")
    many = any(len(REPEAT.findall(part)) > MOST_REPEATS for part in parts)
    if (
        len(pattern) > LONGEST
        or many
        or pattern.count("(") > MOST_GROUPS
        or REPEATED_GROUP.search(pattern)
        or DIGITS.search(pattern)
    ):
        raise kind(
            f"{where} has the pattern {pattern[:100]!r}, which could take for ever to match.",
            "Write plain module names, or get the file from its maker again.",
        )


def check_patterns(value: Any, kind: type[InterleaveError], where: str) -> None:
    """As `check_pattern`, for every text in a value of JSON, keys of objects too."""
    for text in _texts(value):
        check_pattern(text, kind, where)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield str(key)
            yield from _texts(one)
