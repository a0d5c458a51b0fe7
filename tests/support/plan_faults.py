"""Plans with one planted fault, in four languages, and what the check of a plan must find in them.

`tests/data/plan_faults.jsonl` has two kinds of lines. A line with `faults` has a plan without a fault and
its faulty twins; a number among the steps of a twin is that step of the plan. A line with `kind` has a plan
in the phrasing of another model: its fault, the number of its step (`fault_at`), or `good`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from interleave_thinker.backend.core.types import Plan

ROWS = Path(__file__).parents[1] / "data" / "plan_faults.jsonl"
GOOD = "good"


class FaultyPlan(NamedTuple):
    """A plan with at most one fault; `good` is its twin without, `fault_at` the number of the faulty step."""

    kind: str
    request: str
    plan: Plan
    good: Plan | None = None
    fault_at: int | None = None


def _rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]


def _plan(content: dict[str, Any], steps: list[Any] | None = None) -> Plan:
    own = content["steps"]
    chosen = own if steps is None else [own[one - 1] if isinstance(one, int) else one for one in steps]
    numbered = [{"number": number, **step} for number, step in enumerate(chosen, 1)]
    return Plan.model_validate({**content, "steps": numbered})


def planted_faults() -> Iterator[FaultyPlan]:
    """Yield every faulty plan with its twin; `kind` is the rule that has to find it."""
    for row in _rows():
        for fault in row.get("faults", ()):
            faulty = _plan(row["plan"], fault["steps"])
            yield FaultyPlan(fault["rule"], fault["request"], faulty, _plan(row["plan"]))


def other_phrasings() -> Iterator[FaultyPlan]:
    """Yield the plans in the phrasings of other models."""
    for row in _rows():
        if "kind" in row:
            yield FaultyPlan(row["kind"], row["request"], _plan(row["plan"]), fault_at=row.get("fault_at"))
