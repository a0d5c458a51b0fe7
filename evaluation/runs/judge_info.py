"""Who judged, and how: what stands over every table, so that no figure is taken for another.

Decision: two folders are only compared where this is the same, and figures by our own questions say in their
first line that they are not those of published tables.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

How = Literal["official code", "own questions", "built in"]
NOT_COMPARABLE = "own questions, not comparable with published tables"
SHOWN = 3


class JudgeInfo(BaseModel):
    """`evaluator`: repository @ commit that was read, of official code; where this package ran it, the
    commit of the `checkout` and the evaluator's own figures by name (`official`). `judge` and its `settings`
    are empty where they are not known. Of our own questions: how many were asked and how many answers were
    `unread` (they count zero), some of these; means by metric and repeat; questions whose answers differed
    between repeats, and between the two orders of compared pictures, each of how many."""

    how: How
    evaluator: str = ""
    checkout: str = ""
    official: dict[str, float] = {}
    judge: str = ""
    settings: str = ""
    questions: int = 0
    unread: int = 0
    examples: list[str] = []
    repeats: dict[str, list[float]] = {}
    repeats_differ: tuple[int, int] = (0, 0)
    orders_differ: tuple[int, int] = (0, 0)

    @property
    def is_like(self) -> tuple[str, ...]:
        """What must be the same in two folders that are compared."""
        return self.how, self.evaluator, self.checkout, self.judge, self.settings

    def _official(self, by: str) -> list[str]:
        at = f", run unchanged at {self.checkout[:12]}" if self.checkout else ""
        own = ", ".join(f"{name} {value:g}" for name, value in self.official.items())
        lines = [f"official code, {self.evaluator}{at}; judge: {by}"]
        return [*lines, f"the evaluator's own figures: {own}"] if own else lines

    def lines(self) -> list[str]:
        """As they stand over a table."""
        by = f"{self.judge or 'not known'}{f' ({self.settings})' if self.settings else ''}"
        if self.how == "built in":
            return ["judged exactly, built in"]
        if self.how == "official code":
            return self._official(by)
        lines = [
            f"{NOT_COMPARABLE}; judge: {by}",
            f"{self.questions} questions, {self.unread} answers that could not be read and count zero",
        ]
        lines += [f"  unread: {one}" for one in self.examples[:SHOWN]]
        for metric, means in self.repeats.items():
            spread = ", ".join(f"{mean:.3f}" for mean in means)
            lines.append(
                f"judge's own spread, {metric}: "
                f"{spread} (largest less smallest {max(means) - min(means):.3f})"
            )
        for name, (differ, of) in (("repeats", self.repeats_differ), ("orders", self.orders_differ)):
            if of:
                lines.append(f"questions answered differently between {name}: {differ} of {of}")
        return lines
