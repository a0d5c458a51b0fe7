"""Found faults and false alarms of the plan lint, by rule; for plans of a file, the findings themselves.

    python -m benchmarks.plan_faults
    python -m benchmarks.plan_faults --show tuned
    python -m benchmarks.plan_faults --fresh
    python -m benchmarks.plan_faults --plans FILE.jsonl

A line of FILE.jsonl is `{"text": REQUEST, "plan": [[PROMPT, CAPTION], ...]}`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from interleave_thinker.backend.agents.plan_lint.lint import RULES, lint
from interleave_thinker.backend.types import Plan, Step

from .fresh import counted_fresh, shown_fresh
from .planting import planted_faults


def counted() -> Mapping[str, object]:
    """Return faults, found faults and false alarms by rule, and the milliseconds a plan takes.

    False alarms are findings in plans without a fault. In a plan with a fault, another rule may be right: a
    prompt that is replaced also loses what it showed.
    """
    counts: dict[str, Counter[str]] = {rule.id: Counter() for rule in RULES}
    seconds, plans = 0.0, 0
    for one in planted_faults():
        part = "held-out" if one.held_out else "tuned"
        began = time.perf_counter()
        bad, good = lint(one.faulty, one.request), lint(one.good, one.request)
        seconds, plans = seconds + time.perf_counter() - began, plans + 2
        found = {finding.rule for finding in bad}
        counts[one.rule][f"{part} faults"] += 1
        counts[one.rule][f"{part} found"] += one.rule in found
        for finding in good:
            counts[finding.rule][f"{part} false alarms"] += 1
        for rule in found - {one.rule}:
            counts[rule][f"{part} in plans with another fault"] += 1
    return {**counts, "ms a plan": round(1000 * seconds / plans, 3)}


def show(part: str) -> None:
    """Print the missed faults and the false alarms of a part."""
    for one in planted_faults():
        if one.held_out != (part == "held-out"):
            continue
        bad, good = lint(one.faulty, one.request), lint(one.good, one.request)
        if one.rule not in {finding.rule for finding in bad}:
            print("MISSED", one.rule, one.request, *(step.prompt for step in one.faulty.steps), sep="\n    ")
        for finding in (*(finding for finding in bad if finding.rule != one.rule), *good):
            print("FALSE", finding.rule, finding.sentence, "|", one.request)


def show_plans(path: Path) -> None:
    """Print the findings for plans of a file."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if not row.get("plan"):
            continue
        steps = [Step(number=n, prompt=p, auxiliary_text=t) for n, (p, t) in enumerate(row["plan"], 1)]
        print(row["text"])
        for finding in lint(Plan(steps=tuple(steps)), row["text"]):
            print(f"    {finding.rule}: {finding.sentence}")


def main() -> None:
    """Print the counts, or the findings."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--show", choices=("tuned", "held-out"))
    parser.add_argument("--plans", type=Path)
    parser.add_argument("--fresh", action="store_true", help="Plans of fresh.txt and of the repository.")
    options = parser.parse_args()
    if options.plans:
        show_plans(options.plans)
    elif options.fresh:
        print("\n".join(shown_fresh()))
        print(json.dumps(counted_fresh()))
    elif options.show:
        show(options.show)
    else:
        print(json.dumps(counted()))


if __name__ == "__main__":
    main()
