"""Report of a conversion of runs to training data: JSON for programs, and Markdown tables.

Every image is listed with its outcome and the reason, because data can only be trusted if one can check why
an image is in it. Refined prompts for failed images are the most valuable part of a row, so they are counted
by source. docs/how-to/training/own-critic.md explains the columns and reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel

from ....backend.feedback.corrected_prompts import CorrectionSource
from ..rows.sft import RARE
from .attempts import ReadCounts
from .filter import Fate, ImageDecision, counts_of
from .settings import RunsData

REPORT_TEXT = "report.md"
FEW_REASONS = 0.5
"""Share of rows without reasoning above which there is a warning."""


class RowCounts(BaseModel):
    """Counts of a data file.

    Attributes:
        rows: Different rows.
        repeated: Further copies of rows.
        right: Rows with a right image.
        wrong: Rows with a wrong image.
        human: Rows whose verdict is from a person.
        scorer: Rows whose verdict is from a scorer.
        critic: Rows whose verdict is from the critic.
        overruled: Rows that contradict the critic.
        overruled_without_reasoning: Those of them without reasoning.
        without_reasoning: All rows without reasoning.
        rarer: Share of the rarer verdict, including copies.
        remedies: Rows by the source of their refined prompt.
    """

    rows: int
    repeated: int
    right: int
    wrong: int
    human: int
    scorer: int
    critic: int
    overruled: int
    overruled_without_reasoning: int
    without_reasoning: int
    rarer: float
    remedies: dict[CorrectionSource, int]

    @classmethod
    def of(cls, rows: Sequence[ImageDecision]) -> RowCounts:
        """Return the counts of these rows."""
        decided = list({id(one): one for one in rows}.values())
        images = [one.judged for one in decided]
        sources, remedies = [one.source for one in images], [one.remedy for one in images]
        silent = [one for one in images if one.answer is not None and not one.answer.reasoning]
        right = sum(one.verdict for one in decided)
        shown = sum(one.verdict for one in rows)
        return cls(
            rows=len(decided),
            repeated=len(rows) - len(decided),
            right=right,
            wrong=len(decided) - right,
            human=sources.count("human"),
            scorer=sources.count("scorer"),
            critic=sources.count("critic"),
            overruled=sum(one.overruled for one in images),
            overruled_without_reasoning=sum(one.overruled for one in silent),
            without_reasoning=len(silent),
            rarer=min(shown, len(rows) - shown) / max(1, len(rows)),
            remedies={source: remedies.count(source) for source in get_args(CorrectionSource)},
        )


class ReportImage(BaseModel):
    """An image of a run: its place and digest, its outcome and the reason."""

    run: str
    step: int
    attempt: int
    image: str
    fate: Fate
    reason: str
    verdict: bool | None
    source: str | None
    remedy: CorrectionSource | None
    overall: float | None
    copies: int

    @classmethod
    def of(cls, one: ImageDecision) -> ReportImage:
        """Return the outcome of an image."""
        judged = one.judged
        return cls(
            run=judged.run,
            step=judged.step,
            attempt=judged.attempt,
            image=judged.after,
            fate=one.fate,
            reason=one.reason,
            verdict=judged.answer.success if judged.answer else None,
            source=judged.source,
            remedy=judged.remedy,
            overall=judged.score.overall if judged.score else None,
            copies=one.copies,
        )


class RunsReport(BaseModel):
    """Content of report.json. `guard` has the runs left out by a guard against benchmarks."""

    settings: RunsData
    prompt_set: str
    scorer: str | None
    runs: int
    damaged: list[str]
    images: int
    words: int
    words_gone: int
    undrawn: int
    unscored: int
    scored: int = 0
    other_wording: int
    guard: dict[str, Any] | None = None
    files: dict[str, RowCounts]
    kept: dict[str, int]
    left_out: dict[str, int]
    warnings: list[str]
    details: list[ReportImage]


def make_report(
    decided: Sequence[ImageDecision],
    files: Mapping[str, Sequence[ImageDecision]],
    counts: ReadCounts,
    **about: Any,
) -> RunsReport:
    """Return the report; `files` contains the rows of each data file, `about` the other fields."""
    rows = {name: RowCounts.of(of_file) for name, of_file in files.items()}
    return RunsReport(
        runs=counts.runs,
        images=counts.images,
        words=counts.annotations,
        words_gone=counts.annotations_gone,
        undrawn=counts.undrawn,
        unscored=counts.unscored,
        scored=counts.scored,
        other_wording=counts.other_wording,
        files=rows,
        kept=counts_of(one for one in decided if one.fate != "left out"),
        left_out=counts_of(one for one in decided if one.fate == "left out"),
        warnings=_warnings(rows, counts),
        details=[ReportImage.of(one) for one in decided],
        **about,
    )


def _warnings(files: Mapping[str, RowCounts], counts: ReadCounts) -> list[str]:
    warnings = []
    for name, rows in files.items():
        if "held_out" not in name and rows.rows and rows.rarer < RARE:
            more = "True" if rows.right > rows.wrong else "False"
            warnings.append(
                f"{name}: nearly all verdicts are {more}; a critic trained on them tends to always say "
                f"{more}."
            )
        if name.endswith(".json") and rows.without_reasoning > FEW_REASONS * max(1, rows.rows):
            warnings.append(
                f"{name}: {rows.without_reasoning} of {rows.rows} rows have no reasoning and teach to answer "
                "without it. Write notes when you reject, or leave such rows out with --reasoning required."
            )
        silent = rows.overruled_without_reasoning
        if name == "critic_sft.json" and silent * 2 > rows.overruled:
            warnings.append(
                f"{name}: {silent} of the {rows.overruled} rows that overrule the critic have no reasoning, "
                "so little is learned from them. Write a note when you reject."
            )
    if counts.other_wording:
        warnings.append(
            f"{counts.other_wording} of {counts.runs} runs were judged with another prompt set than that of "
            "the rows. Name the critic to train with --init, so that its prompt set is used."
        )
    if counts.annotations_gone:
        warnings.append(
            f"{counts.annotations_gone} annotations belong to images that their runs no longer have."
        )
    return warnings


def as_lines(report: RunsReport) -> list[str]:
    """Return the report as Markdown tables, without the list of images."""
    lines = [
        f"{report.runs} runs, {report.images} images, {report.words} annotations"
        + (f"; {len(report.damaged)} damaged runs left out" if report.damaged else "")
    ]
    if report.settings.rl_share is not None:
        settings = report.settings
        lines.append(f"rl_share {settings.rl_share:g}: variance above {settings.rl_variance:.4g}")
    columns = (
        "rows",
        "right",
        "wrong",
        "human",
        "scorer",
        "critic",
        "overruled",
        "without_reasoning",
        "repeated",
    )
    titles = [name.replace("overruled", "critic overruled").replace("without_", "no ") for name in columns]
    lines += _table(
        ["file", *titles],
        [[name, *(getattr(rows, column) for column in columns)] for name, rows in report.files.items()],
    )
    # Rows of RL have no refined prompts.
    remedies = {name: rows.remedies for name, rows in report.files.items() if name.endswith(".json")}
    remedies = {name: found for name, found in remedies.items() if any(found.values())}
    if remedies:
        sources = [name.replace("later try", "later attempt") for name in get_args(CorrectionSource)]
        rows = [[name, *found.values()] for name, found in remedies.items()]
        lines += [
            *_table(["refined prompts by source", *sources], rows),
            "",
            "none: the refined prompt is not learned.",
        ]
    for title, counts in (("used because", report.kept), ("left out because", report.left_out)):
        lines += _table([title, "images"], list(counts.items())) if counts else []
    notes = [f"{report.undrawn} attempts have no image."] if report.undrawn else []
    notes += [f"{report.unscored} images could not be scored."] if report.unscored else []
    for line in [*notes, *(f"WARNING: {warning}" for warning in report.warnings), *report.damaged]:
        lines += ["", line]
    return lines


def _table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    head = ["", f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    return head + [f"| {' | '.join(map(str, cells))} |" for cells in rows]
