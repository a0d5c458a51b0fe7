"""Compares the answers of two critics to the same rows, and decides whether the second may replace the first.

Three measures must not have dropped: accuracy and both recalls, each by the lower bound of the 95 %
confidence interval of its paired change. With few rows the intervals are wide, so the gate is harder to pass
instead of easier. The critic must also distinguish wrong from right images: it rejects wrong ones more often,
and the interval of this difference excludes 0. A critic that always gives the same verdict fails even if the
previous one did the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from ...backend.prompts.agent_card import KindReliability
from ..reward.terms import read_answer
from ..statistics.intervals import (
    Difference,
    Share,
    agresti_min_interval,
    newcombe_interval,
    share,
    sign_test,
)
from .gate_rows import GateSettings

MEASURES = {
    "accuracy": "accuracy",
    "true_recall": "right images accepted",
    "false_recall": "wrong images rejected",
    "says_true": "images accepted",
    "read": "answers with a verdict",
}


class Measured(BaseModel):
    """Measures of a critic on held-out rows.

    Attributes:
        accuracy: Share of right verdicts.
        true_recall: Share of right images that it accepts.
        false_recall: Share of wrong images that it rejects.
        read: Share of answers with a readable verdict.
        says_true: Share of accepted images.
        right_refused: Share of right images that it rejects.
        hits: Whether each verdict was right.
        truths: Whether each image is right.
    """

    accuracy: Share
    true_recall: Share
    false_recall: Share
    read: Share
    says_true: Share
    right_refused: Share
    hits: list[bool]
    truths: list[bool]


class Gate(BaseModel):
    """Comparison of two critics on the same rows.

    Attributes:
        key: Identifies the comparison.
        before: Measures of the old critic.
        after: Measures of the new critic.
        changes: Paired changes of accuracy and both recalls.
        fixed: Rows that only the new critic judges correctly.
        broken: Rows that only the old critic judges correctly.
        chance: p-value of the exact sign test of `fixed` against `broken`.
        faults: Reasons why the gate was not passed.
        reliability: The new critic's answers to items of checklists, by kind; empty if not measured.
    """

    key: str
    before: Measured
    after: Measured
    changes: dict[str, Difference]
    fixed: int
    broken: int
    chance: float
    faults: list[str]
    reliability: dict[str, KindReliability] = {}

    @property
    def passed(self) -> bool:
        """Whether the new critic may replace the old one."""
        return not self.faults


def measured(answers: Sequence[str], truths: Sequence[bool]) -> Measured:
    """Return the measures of these answers; an answer without a readable verdict is wrong."""
    verdicts = [read_answer(answer) for answer in answers]
    return measured_verdicts([verdict.success if verdict else None for verdict in verdicts], truths)


def measured_verdicts(said: Sequence[bool | None], truths: Sequence[bool]) -> Measured:
    """Return the measures of these verdicts; a missing one is wrong."""
    hits = [one == truth for one, truth in zip(said, truths, strict=True)]
    return Measured(
        accuracy=share(hits),
        true_recall=share([hit for hit, truth in zip(hits, truths, strict=True) if truth]),
        false_recall=share([hit for hit, truth in zip(hits, truths, strict=True) if not truth]),
        read=share([one is not None for one in said]),
        says_true=share([one is True for one in said]),
        right_refused=share([one is False for one, truth in zip(said, truths, strict=True) if truth]),
        hits=hits,
        truths=list(truths),
    )


def compare(before: Measured, after: Measured, settings: GateSettings, key: str = "") -> Gate:
    """Compare two critics that were measured on the same rows."""
    pairs = list(zip(before.truths, before.hits, after.hits, strict=True))
    changes = {
        "accuracy": _change(pairs),
        "true_recall": _change([pair for pair in pairs if pair[0]]),
        "false_recall": _change([pair for pair in pairs if not pair[0]]),
    }
    limits = {"accuracy": settings.allowed_drop}
    faults = []
    for name, change in changes.items():
        limit = limits.get(name, settings.allowed_recall_drop)
        if change.low < -limit - 1e-9:
            old, new = getattr(before, name), getattr(after, name)
            faults.append(
                f"{MEASURES[name]}: {old.rate:.3f} before, {new.rate:.3f} after; the lower 95 % bound of the "
                f"change is {change.low:.3f} (limit {-limit:g})"
            )
    low, high = newcombe_interval(after.false_recall, after.right_refused)
    if low <= 0:
        faults.append(
            f"it does not distinguish wrong from right images: it rejects {after.false_recall.rate:.3f} of "
            f"the wrong and {after.right_refused.rate:.3f} of the right ones (95 % confidence interval of "
            f"the difference {low:+.3f} to {high:+.3f})"
        )
    flips = [(old, new) for _, old, new in pairs]
    fixed, broken = flips.count((False, True)), flips.count((True, False))
    return Gate(
        key=key,
        before=before,
        after=after,
        changes=changes,
        fixed=fixed,
        broken=broken,
        chance=sign_test(fixed, broken),
        faults=faults,
    )


def _change(pairs: Sequence[tuple[bool, bool, bool]]) -> Difference:
    return agresti_min_interval([new for _, _, new in pairs], [old for _, old, _ in pairs])


def as_lines(gate: Gate, what: str) -> list[str]:
    """Return the comparison as lines of a Markdown table."""
    lines = ["", f"| {what} | before | after | change |", "|---|---|---|---|"]
    for name, title in MEASURES.items():
        change = gate.changes.get(name)
        shown = "" if change is None else f"{change.difference:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"
        lines.append(f"| {title} | {getattr(gate.before, name)} | {getattr(gate.after, name)} | {shown} |")
    lines.append("")
    lines.append(
        f"only the new critic is right on {gate.fixed} rows, only the old one on {gate.broken} (p = "
        f"{gate.chance:.3g})"
    )
    return lines


def learned_line(learned: Gate) -> str:
    """Return a one-line summary of a comparison on annotated images."""
    change = learned.changes["accuracy"]
    verdict = (
        "better" if change.low > 0 else "worse" if change.high < 0 else "not significantly better or worse"
    )
    return (
        f"learned: {verdict}; agrees with people on {sum(learned.after.hits)} of {change.n} held-out "
        f"annotations, before training on {sum(learned.before.hits)}: {change}"
    )
