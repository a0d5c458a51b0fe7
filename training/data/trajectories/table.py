"""Summary tables of a call: trajectories by state, attempts per step, verdicts, failures and cost.

The tables cover the whole folder (or shard), so that a resumed call shows everything that exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pydantic import BaseModel

from .outcomes import PromptOutcome
from .usage import Usage

MAX_REASONS = 8
MAX_REASON_LENGTH = 100


class Totals(BaseModel):
    """Sums over the trajectories of a folder, for the table and for programs."""

    prompts: int = 0
    whole: int = 0
    given_up: int = 0
    failed: int = 0
    to_do: int = 0
    drawn_steps: int = 0
    draws: int = 0
    right: int = 0
    wrong: int = 0
    unread: int = 0
    by_generator: dict[str, int] = {}
    reasons: dict[str, int] = {}
    """Reasons of failures, as "place: reason"."""

    @property
    def draws_a_step(self) -> float:
        """Mean number of attempts per step."""
        return self.draws / max(1, self.drawn_steps)


def totals_of(prompts: int, outcomes: Iterable[PromptOutcome]) -> Totals:
    """Return the sums of these outcomes, one per prompt; other prompts count as remaining."""
    totals = Totals(prompts=prompts)
    generators, reasons = Counter[str](), Counter[str]()
    for one in outcomes:
        if one.state == "failed":
            totals.failed += 1
            reasons[f"{one.where}: {one.reason[:MAX_REASON_LENGTH]}"] += 1
        if not one.is_done:
            continue
        totals.whole += one.state == "whole"
        totals.given_up += one.state == "given up"
        generators[one.generator] += 1
        for name in ("drawn_steps", "draws", "right", "wrong", "unread"):
            setattr(totals, name, getattr(totals, name) + getattr(one, name))
    totals.to_do = prompts - totals.whole - totals.given_up - totals.failed
    totals.by_generator = dict(sorted(generators.items()))
    totals.reasons = dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0])))
    return totals


def as_lines(totals: Totals, ledger: Sequence[Usage]) -> list[str]:
    """Return the summary tables."""
    said = totals.right + totals.wrong + totals.unread
    lines = [
        "| trajectories | whole | given up | failed | to do | attempts per step | True | False | unread |",
        "|---|---|---|---|---|---|---|---|---|",
        f"| {totals.prompts} | {totals.whole} | {totals.given_up} | {totals.failed} | {totals.to_do} "
        f"| {totals.draws_a_step:.2f} | {_share(totals.right, said)} | {_share(totals.wrong, said)} "
        f"| {totals.unread} |",
    ]
    if len(totals.by_generator) > 1:
        lines += ["", "| generator | trajectories |", "|---|---|"]
        lines += [f"| {name} | {count} |" for name, count in totals.by_generator.items()]
    if totals.reasons:
        lines += ["", "| failed at | prompts |", "|---|---|"]
        shown = list(totals.reasons.items())
        lines += [f"| {reason} | {count} |" for reason, count in shown[:MAX_REASONS]]
        if len(shown) > MAX_REASONS:
            lines.append(
                f"| {len(shown) - MAX_REASONS} other reasons | "
                f"{sum(count for _, count in shown[MAX_REASONS:])} |"
            )
    if ledger:
        lines += ["", "| role | model | calls | tokens in | cached | tokens out | images | seconds | cost |"]
        lines.append("|---" * 9 + "|")
        lines += [
            f"| {one.role} | {one.model} | {one.calls} | {'~' * bool(one.estimated)}{one.tokens_in} "
            f"| {one.tokens_cached} | {one.tokens_out} | {one.images} | {one.seconds:.0f} | {one.cost:.4g} |"
            for one in ledger
        ]
    return lines


def _share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.0%})" if whole else str(part)
