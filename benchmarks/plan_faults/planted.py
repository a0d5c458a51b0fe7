"""A plan with a planted fault."""

from __future__ import annotations

from dataclasses import dataclass

from interleave_thinker.backend.types import Plan


@dataclass(frozen=True)
class Planted:
    """A plan with one fault and its twin without.

    Attributes:
        rule: The rule that the fault breaks.
        held_out: Whether story and phrasing are held out.
        language: Language of the story.
        request: The request of both plans.
        faulty: The plan with the fault.
        good: The plan without it.
    """

    rule: str
    held_out: bool
    language: str
    request: str
    faulty: Plan
    good: Plan
