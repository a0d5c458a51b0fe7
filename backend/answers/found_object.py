"""One object that was found in an agent's answer, with what is known of how it was written."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from .object_patterns import ANY_TEXT


@dataclass(frozen=True)
class FoundObject:
    """One object of a reply: `value`, and its source from `start` to `end`. `places` tells where the value of
    each key of the outermost object begins (a text: after its quote). `open_depth` counts brackets never
    closed (0: whole). `strict`: there is no doubt about what is quoted in it; `repaired`: it is neither JSON
    nor a Python literal. `alone`: it is not part of a sentence (reply_text.py)."""

    value: dict[str, Any]
    text: str = field(repr=False)
    start: int
    end: int
    places: dict[str, int]
    repaired: bool = False
    strict: bool = False
    open_depth: int = 0
    open_string: bool = False
    alone: bool = True

    @property
    def raw(self) -> str:
        return self.text[self.start : self.end]


def open_quote(raw: str) -> str:
    """The quote of the text in which the source of an object breaks off; empty where it is outside of
    texts."""
    last = deque(ANY_TEXT.finditer(raw), maxlen=1)
    return last[0].group(1) if last and last[0].group(2) != last[0].group(1) else ""
