"""Damaged plans are refused or read as they were meant; harmlessly varied ones are read."""

from __future__ import annotations

from collections import Counter

from support.damaged_plans import KINDS, fault_of, replies


def test_a_damaged_plan_is_never_read_as_another_plan() -> None:
    """A sample of `tests/stress/test_damaged_plans.py`."""
    faults = Counter(
        (reply.kind, fault) for reply in replies(12 * len(KINDS), seed=1) if (fault := fault_of(reply))
    )
    assert not faults
