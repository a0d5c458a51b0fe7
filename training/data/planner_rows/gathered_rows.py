"""Collects a planner's rows with their images, and reports what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from ....backend.feedback.sft_row import SftRow
from ..decontamination.screening import Screened
from .run_rows import RunRows

MAX_LISTED = 1000


class PlannerReport(BaseModel):
    """Content of report.json.

    Attributes:
        trajectories: Number of trajectories.
        outside_items: Items of outside sets.
        rows: Rows by kind.
        held_out: Held-out rows.
        cut: Rows that were shortened between steps to fit.
        left_out: Left-out items by reason.
        unasked_words: Trajectories whose images have texts that the request does not seem to ask for; review
            them.
        guard: What the guard left out.
    """

    trajectories: int = 0
    outside_items: int = 0
    rows: dict[str, int] = {}
    held_out: int = 0
    cut: int = 0
    left_out: dict[str, int] = {}
    unasked_words: list[str] = []
    guard: Screened | None = None


@dataclass
class GatheredRows:
    """Rows and counts; images are in `folder`."""

    folder: Path
    rows: list[SftRow] = field(default_factory=list)
    held_out: list[SftRow] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    unasked: list[str] = field(default_factory=list)
    trajectories: int = 0
    outside_items: int = 0
    cut: int = 0

    def add_run(self, name: str, made: RunRows) -> None:
        """Add the result of a run."""
        self.trajectories += 1
        if made.reason:
            self.left_out[made.reason] += 1
            return
        self.add(made)
        if made.unasked:
            self.unasked.append(name)

    def add(self, made: RunRows) -> None:
        """Add rows of one trajectory."""
        (self.held_out if made.held_out else self.rows).extend(one.row for one in made.rows)
        self.kinds.update(one.kind for one in made.rows)
        self.cut += made.cut
        if made.too_long:
            self.left_out["rows that are too long even when shortened"] += made.too_long

    def add_row(self, row: SftRow, images: Sequence[str]) -> None:
        """Add a row of an outside file; its images have these names in `folder`."""
        self.rows.append(row.model_copy(update={"images": list(images)}))
        self.kinds["outside"] += 1

    def report(self, screened: Screened | None) -> PlannerReport:
        """Return the report."""
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


def as_lines(report: PlannerReport) -> list[str]:
    """Return the report as lines of Markdown tables."""
    lines = [f"{report.trajectories} trajectories", "", "| kind | rows |", "|---|---|"]
    lines += [f"| {kind} | {count} |" for kind, count in report.rows.items()]
    lines += [f"| of these held out | {report.held_out} |"] if report.held_out else []
    if report.left_out:
        lines += ["", "| left out because | count |", "|---|---|"]
        lines += [f"| {reason} | {count} |" for reason, count in report.left_out.items()]
    if report.cut:
        lines += ["", f"{report.cut} rows were shortened between steps to fit."]
    if report.guard:
        lines += ["", f"Trajectories {report.guard.as_line()}."]
    if report.unasked_words:
        count = len(report.unasked_words)
        lines += [
            "",
            f"{count} have texts that the request does not seem to ask for (listed in report.json).",
        ]
    return lines
