"""Reads the names of scorers: options in brackets, and lists of members."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..errors import SettingsError

WITH_OPTIONS = re.compile(r"([\w.-]+)\[([^\]]*)\](?::(.*))?", re.DOTALL)
BETWEEN = re.compile(r"\s+\+\s+")
WEIGHT = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*\*\s*(.+)", re.DOTALL)
BOOLEANS = {"true": True, "false": False}
MAX_SPEC = 4000
MAX_MEMBERS = 8
HOW = "Write NAME[OPTION=VALUE,OPTION=VALUE]:ARGUMENT."


def split_options(spec: str) -> tuple[str, dict[str, str | bool]]:
    """Separate the options of `NAME[OPTION=VALUE,...]:ARGUMENT` from the rest.

    Returns:
        `NAME:ARGUMENT` and the options.

    Raises:
        SettingsError: The options cannot be read, or the spec is too long.
    """
    if len(spec) > MAX_SPEC:
        raise SettingsError(f"The name of the scorer has more than {MAX_SPEC} characters.", "Shorten it.")
    found = WITH_OPTIONS.fullmatch(spec)
    if found is None:
        return spec, {}
    name, given, argument = found.groups()
    options: dict[str, str | bool] = {}
    for part in given.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not key or not equals or not value or key in options:
            raise SettingsError(f"Cannot read {part!r} in the options of the scorer {name!r}.", HOW)
        options[key] = BOOLEANS.get(value, value)
    return f"{name}:{argument or ''}", options


class Member(NamedTuple):
    """A member of a combination."""

    weight: float
    spec: str


def split_members(text: str) -> list[Member]:
    """Return the members of `A + B` or `3*A + 0.5*B`. A member without a weight has the weight 1.

    Raises:
        SettingsError: There are fewer than two or too many members, or a weight is 0.
    """
    specs = [one.strip() for one in BETWEEN.split(text)]
    if not 2 <= len(specs) <= MAX_MEMBERS or not all(specs):
        raise SettingsError(
            f"A combination has 2 to {MAX_MEMBERS} scorers, but {text[:200]!r} does not.",
            "Write their names with a plus between spaces: mean:A + B.",
        )
    members = []
    for spec in specs:
        found = WEIGHT.fullmatch(spec)
        members.append(Member(float(found.group(1)), found.group(2)) if found else Member(1.0, spec))
        if not members[-1].weight:
            raise SettingsError(f"The weight of {members[-1].spec!r} is 0.", "Remove this scorer.")
    return members
