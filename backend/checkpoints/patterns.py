"""Limits regular expressions in untrusted files that a library will match with module names.

Python's `re` tries every way in which a pattern can match, so a short pattern can keep it busy for years. A
pattern is accepted only if the number of ways is small for module names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from ..errors import InterleaveError

MAX_LENGTH = 20_000
MAX_REPEATS = 3
"""Maximum unbounded repeats of non-digits in one alternative. A name has about 100 characters."""
MAX_GROUPS = 12
WAYS_PER_REPEAT = 50
"""Average number of ways to match one unbounded repeat in a name."""
MAX_WAYS = 1_000_000
"""Maximum number of ways to match one pattern. For all patterns of a file, see `MAX_WAYS_IN_ALL`."""
MAX_WAYS_IN_ALL = 10_000_000
OPTIONAL = re.compile(r"(?<![(*+?}\\])\?")
"""A quantifier `?` that neither starts a special group nor makes a repeat lazy."""
VERBOSE = re.compile(r"\(\?[a-zA-Z]*x")
"""A group in which spaces are ignored, so that they could hide a repeat."""
REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{)")
REPEAT = re.compile(r"(?<!\\d)(?<!\\)(?:[*+]|\{\d*,\d*\})")
DIGITS = re.compile(r"(?:\\d[*+]){2}")


def check_pattern(pattern: str, kind: type[InterleaveError], where: str) -> int:
    """Check that a pattern cannot take very long to match.

    Args:
        pattern: Regular expression.
        kind: Class of the error.
        where: File and field of the pattern, for the error message.

    Returns:
        Number of ways to match the pattern, at most `MAX_WAYS`.

    Raises:
        InterleaveError: Of class `kind`, if the pattern is too complex.
    """
    # Alternatives inside groups cannot be split at "|", so the whole pattern counts.
    parts = [pattern] if "(" in pattern else pattern.split("|")
    many = any(len(REPEAT.findall(part)) > MAX_REPEATS for part in parts)
    ways = sum(_ways(part) for part in parts)
    if (
        len(pattern) > MAX_LENGTH
        or many
        or ways > MAX_WAYS
        or pattern.count("(") > MAX_GROUPS
        or REPEATED_GROUP.search(pattern)
        or DIGITS.search(pattern)
        or VERBOSE.search(pattern)
    ):
        raise kind(
            f"{where} has the pattern {pattern[:100]!r}, which could take forever to match.",
            "Use plain module names, or get the file from its author again.",
        )
    return ways


def check_patterns(value: Any, kind: type[InterleaveError], where: str) -> None:
    """Check every string of a JSON value, including keys, as `check_pattern` does, and all of them together.

    Raises:
        InterleaveError: Of class `kind`, if one of them or all together are too complex.
    """
    if sum(check_pattern(text, kind, where) for text in _texts(value)) > MAX_WAYS_IN_ALL:
        raise kind(
            f"{where} has too many patterns: together they could take forever to match.",
            "Use plain module names, or get the file from its author again.",
        )


def _ways(pattern: str) -> int:
    """Return an upper bound of the ways to match a pattern.

    It is the product over its groups, repeats and optional parts.
    """
    ways, open_groups = 1, [1]
    for character in pattern:
        if character == "(":
            open_groups.append(1)
        elif character == "|":
            open_groups[-1] += 1
        elif character == ")" and len(open_groups) > 1:
            ways *= open_groups.pop()
    # More optional parts than this are rejected in any case.
    optional = min(len(OPTIONAL.findall(pattern)), 64)
    repeats = min(len(REPEAT.findall(pattern)), MAX_REPEATS + 1)
    return ways * math.prod(open_groups) * 2**optional * WAYS_PER_REPEAT**repeats


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
