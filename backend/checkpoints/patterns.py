"""Regular expressions in a stranger's files that a library will match against module names.

Reason: Python's `re` tries every way in which a pattern can match, so a short pattern can keep it busy for
years. A pattern is accepted only if the number of ways is small for names of modules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from ..errors import InterleaveError

MAX_LENGTH = 20_000
MAX_REPEATS = 3
"""Unbounded repeats of something other than a digit in one alternative: a name has about 100 characters."""
MAX_GROUPS = 12
WAYS_PER_REPEAT = 50
"""Ways to match one unbounded repeat, on average over the places in a name."""
MAX_WAYS = 1_000_000
"""Ways to match one pattern; for all patterns of a file together, `MAX_WAYS_IN_ALL`."""
MAX_WAYS_IN_ALL = 10_000_000
OPTIONAL = re.compile(r"(?<![(*+?}\\])\?")
"""A quantifier `?`: not the beginning of a special group, and not the mark of a lazy repeat."""
VERBOSE = re.compile(r"\(\?[a-zA-Z]*x")
"""A group in which spaces do not count, so that they could hide a repeat."""
REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{)")
REPEAT = re.compile(r"(?<!\\d)(?<!\\)(?:[*+]|\{\d*,\d*\})")
DIGITS = re.compile(r"(?:\\d[*+]){2}")


def check_pattern(pattern: str, kind: type[InterleaveError], where: str) -> int:
    """Raise `kind` for a pattern that could take very long. `where` names the file and the field. Return the
    number of ways to match it, at most `MAX_WAYS`."""
    # Within groups, alternatives follow one another.
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
            f"{where} has the pattern {pattern[:100]!r}, which could take for ever to match.",
            "Write plain module names, or get the file from its maker again.",
        )
    return ways


def check_patterns(value: Any, kind: type[InterleaveError], where: str) -> None:
    """As `check_pattern`, for every text in a value of JSON, keys of objects too, and for all of them
    together."""
    if sum(check_pattern(text, kind, where) for text in _texts(value)) > MAX_WAYS_IN_ALL:
        raise kind(
            f"{where} has so many patterns that they could take for ever to match.",
            "Write plain module names, or get the file from its maker again.",
        )


def _ways(pattern: str) -> int:
    """An upper bound of the ways to match a pattern: those of its groups, repeats and optional parts,
    multiplied."""
    ways, open_groups = 1, [1]
    for character in pattern:
        if character == "(":
            open_groups.append(1)
        elif character == "|":
            open_groups[-1] += 1
        elif character == ")" and len(open_groups) > 1:
            ways *= open_groups.pop()
    # More of them than this is too many in any case.
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
