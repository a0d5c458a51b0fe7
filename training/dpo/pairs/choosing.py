"""Chooses which two of several answers to a question make a pair, and describes all pairs.

Preference training learns any difference between chosen and rejected answers, length above all. Of the worst
answers, the one whose length is nearest to the best is therefore rejected. The report states how much longer
the chosen answers are and how often they accept, so that an imbalance is visible before it is learned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pydantic import BaseModel

from ....backend.answers.reading import read_verdict
from ....backend.errors import AnswerError
from ...data.rows.preference import PreferenceRow

TIE = 1e-9
MAX_LONGER = 1.25
"""Ratio of the lengths of chosen and rejected answers above which there is a warning."""
RARE = 0.3
"""Share of the rarer verdict among the chosen answers below which there is a warning."""


class Worth(NamedTuple):
    """An answer and its reward, or None if the reward is unknown."""

    answer: str
    worth: float | None


def best_and_worst(answers: Sequence[Worth], least_margin: float) -> tuple[Worth, Worth] | None:
    """Return the best and the worst answer, with rewards at least `least_margin` apart, or None.

    Of equally good answers the shortest is taken, and of equally bad ones the one whose length is nearest to
    it.
    """
    known = [(one, one.worth) for one in answers if one.worth is not None and one.answer.strip()]
    if len(known) < 2:
        return None
    high, low = max(worth for _, worth in known), min(worth for _, worth in known)
    if high - low < max(least_margin, TIE):
        return None
    best = min((one for one, worth in known if high - worth <= TIE), key=lambda one: len(one.answer))
    worst = min(
        (one for one, worth in known if worth - low <= TIE),
        key=lambda one: abs(len(one.answer) - len(best.answer)),
    )
    return None if best.answer.strip() == worst.answer.strip() else (best, worst)


class PairCounts(BaseModel):
    """Properties of a file of pairs.

    Attributes:
        pairs: Number of pairs.
        longer: Mean length of the chosen answers divided by that of the rejected ones.
        chosen_true: Share of accepting verdicts among the chosen ones, of the pairs whose verdicts differ.
            None if the verdicts never differ.
        by_rule: Number of pairs of each rule.
    """

    pairs: int
    longer: float
    chosen_true: float | None
    by_rule: dict[str, int]


def counted(rows: Sequence[PreferenceRow]) -> PairCounts:
    """Return the properties of these pairs."""
    chosen, rejected = (sum(len(getattr(row, name)) for row in rows) for name in ("chosen", "rejected"))
    said = [(_said(row.chosen), _said(row.rejected)) for row in rows]
    opposite = [better for better, worse in said if better is not None and better != worse]
    rules: dict[str, int] = {}
    for row in rows:
        rules[row.why or "(none)"] = rules.get(row.why or "(none)", 0) + 1
    return PairCounts(
        pairs=len(rows),
        longer=chosen / max(1, rejected),
        chosen_true=sum(opposite) / len(opposite) if opposite else None,
        by_rule=dict(sorted(rules.items())),
    )


def show(counts: PairCounts, log: Callable[[str], None]) -> list[str]:
    """Log the properties of pairs, and return the warnings."""
    rules = ", ".join(f"{number} by {rule!r}" for rule, number in counts.by_rule.items())
    log(f"{counts.pairs} pairs: {rules}; length of chosen to rejected answers: {counts.longer:.2f}")
    warnings = []
    if not 1 / MAX_LONGER <= counts.longer <= MAX_LONGER:
        more = "longer" if counts.longer > 1 else "shorter"
        warnings.append(
            f"the chosen answers are {more} on average, and the model learns length before anything else"
        )
    share = counts.chosen_true
    if share is not None and min(share, 1 - share) < RARE:
        warnings.append(
            f"in pairs with different verdicts, {share:.0%} of the chosen answers accept: the agent may "
            "learn to give the same verdict for every image"
        )
    for warning in warnings:
        log(f"WARNING: {warning}.")
    return warnings


def _said(answer: str) -> bool | None:
    try:
        return read_verdict(answer).success
    except AnswerError:
        return None
