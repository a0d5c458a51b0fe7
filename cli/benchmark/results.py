"""`benchmark collect`, `score` and `compare`: what becomes of a benchmark's folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...backend.errors import SettingsError
from ...backend.shown_text import shown_text
from ..options.models import with_model_options
from .judges import JudgeOptions

if TYPE_CHECKING:
    from ...evaluation.runs.scores import BenchmarkScores

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
    from ...evaluation.runs import submission as collecting

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
    repeats: Annotated[
        int, typer.Option(min=1, max=20, help="Ask --judge so often, to see how far it agrees with itself.")
    ] = 1,
    order_swap: Annotated[
        bool,
        typer.Option("--order-swap", help="Ask --judge in both orders where two images are compared (RISE)."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask a hosted judge, which may cost money, without being asked.")
    ] = False,
    judge: JudgeOptions,
) -> None:
    """Write the figures with their intervals: OUT/scores.json, and scores.md, which is printed.

    From --results of the benchmark's own evaluator, by --official, which runs it with --judge, or by --judge
    alone in our own words: those figures are not comparable with published tables.
    """
    from ...evaluation.runs.scores import as_lines
    from ...evaluation.runs.scores import score as scored

    if results is not None and (official is not None or judge.judge is not None):
        made_by = "--judge" if official is None else "--official"
        raise SettingsError(f"{made_by} makes the results.", "Leave out --results.")
    own = official is None and judge.judge is not None
    if not own and (repeats > 1 or order_swap):
        raise SettingsError(
            "--repeats and --order-swap are of our own questions.",
            "Give --judge without --official, or leave them out.",
        )
    if official is not None:
        from ...evaluation.runs.official_scoring import ANSWERS, OfficialScoring, score_officially

        _ask_first(judge, "The evaluator's questions go", yes)
        how = OfficialScoring(official, python or sys.executable, judge.judge_parallel, silence)
        found = score_officially(out, how, lambda: judge.open(out / ANSWERS), _say)
    else:
        found = _by_judge(out, judge, repeats, order_swap, yes) if own else scored(out, results)
    for line in as_lines(found):
        _say(line)


def _ask_first(judge: JudgeOptions, what: str, yes: bool) -> None:
    """End where a hosted judge was not agreed to."""
    from ...backend.remote.hosted import hosted_specs

    if hosted_specs([judge.judge or ""]) and not yes:
        _say(f"{what} to {judge.judge}, which is hosted and may cost money. Add --yes to begin.")
        raise typer.Exit(3)


def _by_judge(out: Path, judge: JudgeOptions, repeats: int, order_swap: bool, yes: bool) -> BenchmarkScores:
    """The figures of our own questions; what the judge said is kept in OUT/answers.sqlite."""
    from ...evaluation.runs.own_scoring import OwnScoring, score, to_ask

    asked = to_ask(out)
    opened = judge.open(out / "answers.sqlite")
    try:
        scoring = OwnScoring(opened, repeats, order_swap, judge.judge_parallel)
        _ask_first(judge, f"{asked.calls(scoring)} questions go, those answered before among them,", yes)
        return score(asked, scoring, _say)
    finally:
        opened.close()


def compare(
    first: Folder,
    second: Annotated[Path, typer.Argument(help="Another, of the same data.", exists=True, file_okay=False)],
    page: Annotated[
        Path | None, typer.Option(help="Write a web page of the items that differ most: FILE.html.")
    ] = None,
) -> None:
    """Set two scored folders side by side, item by item."""
    from ...evaluation.runs import comparison as comparing

    for line in comparing.as_lines(comparing.compare(first, second)):
        _say(line)
    if page is not None:
        from ...evaluation.runs.pages import comparison

        _say(f"page: {comparison.write(first, second, page)}")


def table(
    folders: Annotated[
        list[Path], typer.Argument(help="Scored folders of one benchmark, judged alike.", exists=True)
    ],
) -> None:
    """Several folders in one table: figures, draws and seconds an item, steps that nobody accepted."""
    from ...evaluation.runs.pages.table import table as tabled

    for line in tabled(folders):
        _say(line)


def _say(line: str) -> None:
    typer.echo(shown_text(line))
