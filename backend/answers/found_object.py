"""An object found in an agent's answer, and how it was written."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .object_patterns import ANY_TEXT

STEP_NUMBER = re.compile(r"\s*(?:step|第)?[\s_#-]{0,3}(\d{1,4})\s*[步.:)]?\s*", re.IGNORECASE)
"""A step number, also written as `Step 3` or `3.`."""

REASONING = "reasoning"
"""Property of the reasoning in an answer that is only JSON."""


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
        closed: Whether a tag ends it, so that only its last bracket can be missing.
        uncertain: Whether a text in it may have swallowed what follows it: quotes in it are not escaped and
            not in pairs, or it has no quotes.
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
    closed: bool = False
    uncertain: bool = False
    alone: bool = True

    @property
    def reasoning(self) -> str:
        """Reasoning that the object contains as a property; empty if there is none."""
        reasoning = self.value.get(REASONING)
        return reasoning.strip() if isinstance(reasoning, str) else ""

    @property
    def cut_off(self) -> bool:
        """Whether it breaks off where more values could follow, for example further steps of a plan."""
        return self.open_string or self.open_depth > int(self.closed)

    @property
    def raw(self) -> str:
        """Source of the object."""
        return self.text[self.start : self.end]


def open_quote(raw: str) -> str:
    """Return the quote of the text in which an object's source breaks off; empty outside of texts."""
    last = deque(ANY_TEXT.finditer(raw), maxlen=1)
    return last[0].group(1) if last and last[0].group(2) != last[0].group(1) else ""


def step_number(step: object) -> int | None:
    """Return the number of a step, `None` if it has none."""
    number = step.get("step_number") if isinstance(step, dict) else None
    if isinstance(number, str) and (found := STEP_NUMBER.fullmatch(number)):
        return int(found[1])
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def continues(before: Sequence[object], after: Sequence[object]) -> bool:
    """Return whether the steps of `after` count on from the last step of `before`, one by one.

    Another plan would start again, so steps that count on belong to the same plan.
    """
    last = step_number(before[-1]) if before else None
    return (
        last is not None
        and len(after) > 0
        and all(step_number(step) == last + place for place, step in enumerate(after, 1))
    )
