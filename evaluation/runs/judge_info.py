"""Judge and method of a scored folder, shown above every table.

Folders are compared only if these are equal. Figures from our own questions state in their first line that
they are not comparable with published tables.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

How = Literal["official code", "own questions", "built in"]
NOT_COMPARABLE = "own questions, not comparable with published tables"
SHOWN = 3


class JudgeInfo(BaseModel):
    """How a folder was judged.

    Attributes:
        how: Official code, own questions, or built-in check.
        evaluator: Repository @ commit that this package was written for, if official code was used.
        checkout: Commit of the evaluator's checkout, if this package ran it.
        official: The evaluator's own figures by name.
        judge: Name of the judge; empty if unknown.
        settings: Settings of the judge; empty if unknown.
        questions_version: Version of the own questions. Scores without this field have version 1.
        questions: Number of own questions that were asked.
        unread: Number of answers that could not be read; they count as zero.
        examples: Some of the unread answers.
        repeats: Means by metric and repeat.
        repeats_differ: Number of questions whose answers differed between repeats, and the total.
        orders_differ: Number of questions whose answers differed between the two orders of images, and the
            total.
    """

    how: How
    evaluator: str = ""
    checkout: str = ""
    official: dict[str, float] = {}
    judge: str = ""
    settings: str = ""
    questions_version: int = 1
    questions: int = 0
    unread: int = 0
    examples: list[str] = []
    repeats: dict[str, list[float]] = {}
    repeats_differ: tuple[int, int] = (0, 0)
    orders_differ: tuple[int, int] = (0, 0)

    @property
    def is_like(self) -> tuple[str | int, ...]:
        """Values that must be equal for two folders to be compared."""
        return self.how, self.evaluator, self.checkout, self.judge, self.settings, self.questions_version

    def _official(self, by: str) -> list[str]:
        at = f", run unchanged at {self.checkout[:12]}" if self.checkout else ""
        own = ", ".join(f"{name} {value:g}" for name, value in self.official.items())
        lines = [f"official code, {self.evaluator}{at}; judge: {by}"]
        return [*lines, f"figures of the evaluator: {own}"] if own else lines

    def lines(self) -> list[str]:
        """Return the lines shown above a table."""
        by = f"{self.judge or 'not known'}{f' ({self.settings})' if self.settings else ''}"
        if self.how == "built in":
            return ["judged exactly by a built-in check"]
        if self.how == "official code":
            return self._official(by)
        lines = [
            f"{NOT_COMPARABLE}; questions version {self.questions_version}; judge: {by}",
            f"{self.questions} questions; {self.unread} answers could not be read and count as zero",
        ]
        lines += [f"  unread: {one}" for one in self.examples[:SHOWN]]
        for metric, means in self.repeats.items():
            spread = ", ".join(f"{mean:.3f}" for mean in means)
            lines.append(
                f"variation of the judge between repeats, {metric}: {spread} (range "
                f"{max(means) - min(means):.3f})"
            )
        for name, (differ, of) in (("repeats", self.repeats_differ), ("orders", self.orders_differ)):
            if of:
                lines.append(f"questions answered differently between {name}: {differ} of {of}")
        return lines
