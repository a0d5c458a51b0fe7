"""What two critics said of the same rows, and whether the second may follow the first.

Decisions. Three things may not have fallen: the share of right verdicts and either recall, each by the lower
end of the 95 % interval of its paired change, so that few rows can show little instead of letting anything
pass. And the critic must distinguish wrong images from right ones: it refuses the wrong ones more often, and
the interval of that difference leaves 0 out. A critic that always says the same is refused even if it follows
another such.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

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
    "accuracy": "right verdicts",
    "true_recall": "right images accepted",
    "false_recall": "wrong images refused",
    "says_true": "says True",
    "read": "answers read",
}


class Measured(BaseModel):
    """A critic on held-out rows: right verdicts, by truth too; `right_refused`: right images of which it says
    False; `read`: answers with a verdict; `says_true`: its lean."""

    accuracy: Share
    true_recall: Share
    false_recall: Share
    read: Share
    says_true: Share
    right_refused: Share
    hits: list[bool]
    truths: list[bool]


class Gate(BaseModel):
    """The comparison: `changes` of accuracy and recalls, paired; `fixed` and `broken` are rows that only the
    new or only the old critic judges rightly."""

    key: str
    before: Measured
    after: Measured
    changes: dict[str, Difference]
    fixed: int
    broken: int
    chance: float
    faults: list[str]

    @property
    def passed(self) -> bool:
        return not self.faults


def measured(answers: Sequence[str], truths: Sequence[bool]) -> Measured:
    """The measure of these answers; one without a readable verdict is wrong."""
    verdicts = [read_answer(answer) for answer in answers]
    said = [verdict.success if verdict else None for verdict in verdicts]
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
    """Whether `after` may follow `before`, both measured on the same rows."""
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
                f"{MEASURES[name]}: {old.rate:.3f} before, {new.rate:.3f} after; by the 95 % interval of "
                "the change it may "
                f"have fallen by {-change.low:.3f} (allowed: {limit:g})"
            )
    low, high = newcombe_interval(after.false_recall, after.right_refused)
    if low <= 0:
        faults.append(
            f"it does not distinguish wrong images from right ones: it refuses \
{after.false_recall.rate:.3f} and "
            f"{after.right_refused.rate:.3f} of them (95 % interval of the difference {low:+.3f} to "
            f"{high:+.3f})"
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
    """The comparison as a Markdown table."""
    lines = ["", f"| {what} | before | after | change |", "|---|---|---|---|"]
    for name, title in MEASURES.items():
        change = gate.changes.get(name)
        shown = "" if change is None else f"{change.difference:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"
        lines.append(f"| {title} | {getattr(gate.before, name)} | {getattr(gate.after, name)} | {shown} |")
    lines.append("")
    lines.append(
        f"{gate.fixed} rows judged rightly only after, {gate.broken} only before (p = {gate.chance:.3g})"
    )
    return lines


def learned_line(learned: Gate) -> str:
    """What was learned by a comparison on annotated images, in one line."""
    change = learned.changes["accuracy"]
    verdict = (
        "better" if change.low > 0 else "worse" if change.high < 0 else "not shown to be better or worse"
    )
    return (
        f"learned: {verdict}; agrees with people on {sum(learned.after.hits)} of {change.n} held-out "
        "annotations, before on "
        f"{sum(learned.before.hits)}: {change}"
    )
