"""Which two of several answers to one question make a pair, and what is said of all pairs.

Decision: preference training learns whatever the chosen answers have in common, length before all. So of the
worst answers the one is rejected that is nearest to the best in length, and the report says how much longer
the chosen ones are and how often they say True: what is lopsided there is learned first.
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
"""Times the length of the rejected answers past which the chosen ones are said to be longer."""
RARE = 0.3
"""Share of the rarer verdict among the chosen ones below which they are said to lean."""


class Worth(NamedTuple):
    """An answer and what it is worth; None: nobody knows."""

    answer: str
    worth: float | None


def best_and_worst(answers: Sequence[Worth], least_margin: float) -> tuple[Worth, Worth] | None:
    """The best answer and the worst one, at least `least_margin` apart; of equally good ones the shortest, of
    equally bad ones that of the nearest length. None if there are no such two."""
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
    """What a file of pairs is like; `longer`: mean length of the chosen answers over that of the rejected;
    `chosen_true`: share of the chosen verdicts that say True where the pair is about that, None where no pair
    is."""

    pairs: int
    longer: float
    chosen_true: float | None
    by_rule: dict[str, int]


def counted(rows: Sequence[PreferenceRow]) -> PairCounts:
    """The counts of these pairs."""
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
    """Say what pairs are like; returns the warnings among it."""
    rules = ", ".join(f"{number} by {rule!r}" for rule, number in counts.by_rule.items())
    log(f"{counts.pairs} pairs: {rules}; chosen answers are {counts.longer:.2f} times as long")
    warnings = []
    if not 1 / MAX_LONGER <= counts.longer <= MAX_LONGER:
        more = "longer" if counts.longer > 1 else "shorter"
        warnings.append(f"the chosen answers are {more} on the whole, which is learned before anything else")
    share = counts.chosen_true
    if share is not None and min(share, 1 - share) < RARE:
        warnings.append(
            f"{share:.0%} of the chosen verdicts that differ from the rejected ones say True: such an agent "
            "learns to say the same always"
        )
    for warning in warnings:
        log(f"WARNING: {warning}.")
    return warnings


def _said(answer: str) -> bool | None:
    try:
        return read_verdict(answer).success
    except AnswerError:
        return None
