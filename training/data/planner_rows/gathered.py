"""The rows as they come together, with their images, and the report of what became of everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ValidationError

from ....backend.errors import SettingsError
from ....backend.feedback.sft_row import SftMessage, SftRow
from ...rows.sft import RowProblem
from ..guard.screening import Screened
from ..row_folder import keep_picture
from .kinds import Asked, Question

MAX_LISTED = 1000


class PlannerReport(BaseModel):
    """The content of report.json. `cut`: rows that were cut between steps to be short enough.
    `unasked_words`: trajectories whose pictures have words although the request does not seem to ask for any;
    a person should look at them."""

    trajectories: int = 0
    outside_items: int = 0
    rows: dict[str, int] = {}
    held_out: int = 0
    cut: int = 0
    left_out: dict[str, int] = {}
    unasked_words: list[str] = []
    guard: Screened | None = None


@dataclass
class Gathered:
    """Rows and counts; images lie in `folder`."""

    folder: Path
    rows: list[SftRow] = field(default_factory=list)
    held_out: list[SftRow] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    unasked: list[str] = field(default_factory=list)
    trajectories: int = 0
    outside_items: int = 0
    cut: int = 0

    def add(self, asked: Asked, held_out: bool = False) -> None:
        """Make rows of the questions of one trajectory, all or none. Raises PictureError for a picture that
        is gone, SettingsError for a question that cannot be a row."""
        made = [self._row(question) for question in asked.questions]
        (self.held_out if held_out else self.rows).extend(made)
        self.kinds.update(question.kind for question in asked.questions)
        self.cut += asked.cut
        if asked.too_long:
            self.left_out["rows that are too long however they are cut"] += asked.too_long

    def add_row(self, row: SftRow, images: Sequence[str]) -> None:
        """Add a row of an outside file whose images lie in `folder` under these names."""
        self.rows.append(row.model_copy(update={"images": list(images)}))
        self.kinds["outside"] += 1

    def report(self, screened: Screened | None) -> PlannerReport:
        """What became of everything."""
        return PlannerReport(
            trajectories=self.trajectories,
            outside_items=self.outside_items,
            rows=dict(sorted(self.kinds.items())),
            held_out=len(self.held_out),
            cut=self.cut,
            left_out=dict(self.left_out.most_common()),
            unasked_words=self.unasked[:MAX_LISTED],
            guard=screened,
        )

    def _row(self, question: Question) -> SftRow:
        turns = [
            SftMessage(role="user", content=question.text),
            SftMessage(role="assistant", content=question.answer),
        ]
        names = [keep_picture(picture, self.folder) for picture in question.images]
        try:
            return SftRow(messages=turns, images=names)
        except ValidationError as error:
            raise SettingsError(str(RowProblem.of(question.kind, error))) from error


def as_lines(report: PlannerReport) -> list[str]:
    """The report as Markdown tables."""
    lines = [f"{report.trajectories} trajectories", "", "| kind | rows |", "|---|---|"]
    lines += [f"| {kind} | {count} |" for kind, count in report.rows.items()]
    lines += [f"| of these held out | {report.held_out} |"] if report.held_out else []
    if report.left_out:
        lines += ["", "| left out, because | count |", "|---|---|"]
        lines += [f"| {reason} | {count} |" for reason, count in report.left_out.items()]
    if report.cut:
        lines += ["", f"{report.cut} rows were cut between steps to be short enough."]
    if report.guard:
        lines += ["", f"Trajectories {report.guard.as_line()}."]
    if report.unasked_words:
        count = len(report.unasked_words)
        lines += ["", f"{count} have words that nobody seems to have asked for (report.json lists them)."]
    return lines
