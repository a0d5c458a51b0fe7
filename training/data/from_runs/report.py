"""Report of a conversion of runs to training data: JSON for programs, and Markdown tables.

Every image is listed with its outcome and the reason, because data can only be trusted if one can check why
an image is in it. Refined prompts for failed images are the most valuable part of a row, so they are counted
by source.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from pydantic import BaseModel

from ....backend.feedback.corrected_prompts import CorrectionSource
from ..decontamination.screening import Screened
from ..rows.sft import RARE
from .attempts import ReadCounts
from .filter import Fate, ImageDecision, counts_of
from .settings import RunsData

REPORT_JSON = "report.json"
REPORT_TEXT = "report.md"
LEGEND = {
    "right, wrong": "rows about right and about wrong images",
    "human, scorer, critic": "whose verdict is learned: yours, a score's, or the critic's own",
    "critic overruled": "rows in which you or a score contradict the critic",
    "no reasoning": "rows that teach a verdict without a reason",
    "repeated": "copies of rows, to balance the verdicts; not counted under rows",
    "person": "your better prompt (`--better`)",
    "teacher": "a program that knows the right prompt, in generated data",
    "later attempt": "the prompt of a later attempt that was accepted",
    "critic (refined prompt)": "the critic's own prompt",
    "none": "no refined prompt is learned",
    "too many rows say True (or False), and this one is not annotated": "left out to balance the verdicts; "
    "rows that you annotated stay",
    "duplicate question": "another row has the same images and prompts; your verdict comes before a score's, "
    "and a score's before the critic's",
    "after the step's best attempt": "the critic continued although the best image was there",
    "no later attempt is as good as the first": "no prompt helped, so attempts without annotation are "
    "left out",
    "in a held-out run and not annotated": "held-out runs measure the critic, so its own verdicts do "
    "not count",
}
"""What the columns and reasons mean. docs/how-to/training/own-critic.md has the same words."""
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


class RunsReport(BaseModel):
    """Content of report.json."""

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
    """Number of new scores; the others were cached."""
    other_wording: int
    guard: Screened | None = None
    """Runs left out because they are in a benchmark; None without a guard."""
    files: dict[str, RowCounts]
    kept: dict[str, int]
    left_out: dict[str, int]
    warnings: list[str]
    details: list[ReportImage]


def rows_of(rows: Sequence[ImageDecision]) -> RowCounts:
    """Return the counts of these rows."""
    decided = list({id(one): one for one in rows}.values())
    sources = [one.judged.source for one in decided]
    remedies = [one.judged.remedy for one in decided if one.judged.remedy is not None]
    answers = [one.judged.answer for one in decided]
    return RowCounts(
        rows=len(decided),
        repeated=len(rows) - len(decided),
        right=sum(one.verdict for one in decided),
        wrong=sum(not one.verdict for one in decided),
        human=sources.count("human"),
        scorer=sources.count("scorer"),
        critic=sources.count("critic"),
        overruled=sum(one.judged.overruled for one in decided),
        overruled_without_reasoning=sum(
            one.judged.overruled and one.judged.answer is not None and not one.judged.answer.reasoning
            for one in decided
        ),
        without_reasoning=sum(answer is not None and not answer.reasoning for answer in answers),
        rarer=min(sum(one.verdict is truth for one in rows) for truth in (True, False)) / max(1, len(rows)),
        remedies={source: remedies.count(source) for source in get_args(CorrectionSource)},
    )


class Conversion(NamedTuple):
    """Settings of a conversion: settings, digest of the prompt set, identity of the scorer, left-out runs."""

    settings: RunsData
    prompt_set: str
    scorer: str | None
    screened: Screened | None = None


def make_report(
    decided: Sequence[ImageDecision],
    files: dict[str, Sequence[ImageDecision]],
    counts: ReadCounts,
    damaged: Sequence[str],
    made: Conversion,
) -> RunsReport:
    """Return the report; `files` contains the rows of each data file."""
    rows = {name: rows_of(of_file) for name, of_file in files.items()}
    return RunsReport(
        settings=made.settings,
        prompt_set=made.prompt_set,
        scorer=made.scorer,
        runs=counts.runs,
        damaged=list(damaged),
        images=counts.images,
        words=counts.annotations,
        words_gone=counts.annotations_gone,
        undrawn=counts.undrawn,
        unscored=counts.unscored,
        scored=counts.scored,
        other_wording=counts.other_wording,
        guard=made.screened,
        files=rows,
        kept=counts_of(one for one in decided if one.fate != "left out"),
        left_out=counts_of(one for one in decided if one.fate == "left out"),
        warnings=_warnings(rows, counts),
        details=[_image(one) for one in decided],
    )


def _image(one: ImageDecision) -> ReportImage:
    judged = one.judged
    return ReportImage(
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


def _warnings(files: dict[str, RowCounts], counts: ReadCounts) -> list[str]:
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
        if (
            rows.overruled
            and name == "critic_sft.json"
            and rows.overruled_without_reasoning * 2 > rows.overruled
        ):
            warnings.append(
                f"{name}: {rows.overruled_without_reasoning} of the {rows.overruled} rows that overrule the "
                "critic have no reasoning, so little is learned from them. Write a note when you reject."
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
        + (f"; {len(report.damaged)} damaged runs left out" if report.damaged else ""),
        *(
            [f"rl_share {report.settings.rl_share:g}: variance above {report.settings.rl_variance:.4g}"]
            if report.settings.rl_share is not None
            else []
        ),
        "",
        (
            "| file | rows | right | wrong | human | scorer | critic | critic overruled | no reasoning | "
            "repeated |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in report.files.items():
        cells = [rows.rows, rows.right, rows.wrong, rows.human, rows.scorer, rows.critic, rows.overruled]
        cells += [rows.without_reasoning, rows.repeated]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    lines += _remedy_lines(report.files)
    for title, counts in (("used because", report.kept), ("left out because", report.left_out)):
        if counts:
            lines += ["", f"| {title} | images |", "|---|---|"]
            lines += [f"| {reason} | {count} |" for reason, count in counts.items()]
    notes = [f"Runs {report.guard.as_line()}."] if report.guard else []
    notes += [f"{report.undrawn} attempts have no image."] if report.undrawn else []
    notes += [f"{report.unscored} images could not be scored."] if report.unscored else []
    for line in [*notes, *(f"WARNING: {warning}" for warning in report.warnings), *report.damaged]:
        lines += ["", line]
    return lines


def _remedy_lines(files: dict[str, RowCounts]) -> list[str]:
    """Return the table of refined prompts by source, without files whose rows have none (RL)."""
    remedies_of = {name: rows.remedies for name, rows in files.items() if name.endswith(".json")}
    remedies_of = {name: remedies for name, remedies in remedies_of.items() if any(remedies.values())}
    if not remedies_of:
        return []
    names = [name.replace("later try", "later attempt") for name in get_args(CorrectionSource)]
    lines = ["", f"| refined prompts by source | {' | '.join(names)} |"]
    lines.append("|---" * (1 + len(get_args(CorrectionSource))) + "|")
    lines += [
        f"| {name} | {' | '.join(map(str, remedies.values()))} |" for name, remedies in remedies_of.items()
    ]
    return [*lines, "", "none: the refined prompt is not learned."]


def write_report(folder: Path, report: RunsReport) -> None:
    """Write both forms of the report."""
    (folder / REPORT_JSON).write_text(
        report.model_dump_json(indent=1, by_alias=True) + "\n", encoding="utf-8"
    )
    legend = [f"| {name} | {meaning} |" for name, meaning in LEGEND.items()]
    legend = ["## Legend", "", "| column or reason | meaning |", "|---|---|", *legend]
    text = "\n".join(["# Training data from runs", "", *as_lines(report), "", *legend])
    (folder / REPORT_TEXT).write_text(text + "\n", encoding="utf-8")
