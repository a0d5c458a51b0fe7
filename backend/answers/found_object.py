"""An object found in an agent's answer, and how it was written."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from .object_patterns import ANY_TEXT


@dataclass(frozen=True)
class FoundObject:
    """An object in a reply.

    Attributes:
        value: The object.
        text: The whole reply.
        start: Where its source starts in the reply.
        end: Where its source ends.
        places: Where the value of each key of the outermost object starts (for a text: after its quote).
        repaired: Whether it is neither JSON nor a Python literal.
        strict: Whether it is clear what is quoted in it.
        open_depth: Number of brackets that are never closed; 0 if it is complete.
        open_string: Whether it breaks off inside a text.
        alone: Whether it is not part of a sentence (reply_text.py).
    """

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
        """Source of the object."""
        return self.text[self.start : self.end]


def open_quote(raw: str) -> str:
    """Return the quote of the text in which an object's source breaks off; empty outside of texts."""
    last = deque(ANY_TEXT.finditer(raw), maxlen=1)
    return last[0].group(1) if last and last[0].group(2) != last[0].group(1) else ""
