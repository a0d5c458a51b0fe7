"""`benchmark collect`, `score` and `compare`: what becomes of a benchmark's folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ...backend.shown_text import shown_text
from ..model_options import with_model_options
from .judges import JudgeOptions

Folder = Annotated[
    Path, typer.Argument(help="The --out folder of a benchmark.", exists=True, file_okay=False)
]


def collect(
    out: Folder,
    with_gaps: Annotated[
        bool, typer.Option("--with-gaps", help="Take items without an answer too: they count zero.")
    ] = False,
    relative_to: Annotated[
        Path | None, typer.Option(help="Name images (UEval) relative to this folder; by default in full.")
    ] = None,
    link: Annotated[
        Path | None, typer.Option(help="Checkout of SpecV: link the submission where its code looks.")
    ] = None,
) -> None:
    """Write OUT/submission in the evaluator's form, and read it back as the evaluator does."""
    from ...training.evaluation.benchmarks import collect as collecting

    collecting.collect(out, with_gaps, relative_to, _say)
    if link is not None:
        _say(f"linked: {collecting.link(out, link)}")


@with_model_options
def score(
    *,
    out: Folder,
    results: Annotated[
        Path | None, typer.Option(help="What the benchmark's own evaluator wrote; none for tinyworld.")
    ] = None,
    official: Annotated[
        Path | None,
        typer.Option(help="Checkout of the benchmark's own evaluator: it is run as it is, with --judge."),
    ] = None,
    python: Annotated[
        str | None, typer.Option(help="Python that has the evaluator's requirements; by default this one.")
    ] = None,
    silence: Annotated[
        float, typer.Option(min=1.0, help="Seconds without a question after which an evaluator is ended.")
    ] = 900.0,
    judge: JudgeOptions,
) -> None:
    """Write the figures with their intervals: OUT/scores.json, and scores.md, which is printed."""
    from ...training.evaluation.benchmarks.figures import as_lines
    from ...training.evaluation.benchmarks.figures import score as scored

    if official is not None:
        from ...training.evaluation.benchmarks.official.scoring import ANSWERS, Official, score_officially

        if results is not None:
            raise SettingsError("--official makes the results.", "Leave out --results.")
        how = Official(official, python or sys.executable, judge.judge_parallel, silence)
        found = score_officially(out, how, lambda: judge.open(out / ANSWERS), _say)
    else:
        found = scored(out, results)
    for line in as_lines(found):
        _say(line)


def compare(
    first: Folder,
    second: Annotated[Path, typer.Argument(help="Another, of the same data.", exists=True, file_okay=False)],
    page: Annotated[
        Path | None, typer.Option(help="Write a web page of the items that differ most: FILE.html.")
    ] = None,
) -> None:
    """Set two scored folders side by side, item by item."""
    from ...training.evaluation.benchmarks import compare as comparing

    for line in comparing.as_lines(comparing.compare(first, second)):
        _say(line)
    if page is not None:
        from ...training.evaluation.benchmarks.pages import comparison

        _say(f"page: {comparison.write(first, second, page)}")


def _say(line: str) -> None:
    typer.echo(shown_text(line))
