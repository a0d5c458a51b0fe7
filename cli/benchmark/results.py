"""`benchmark collect`, `score`, `compare` and `table`: submissions and scores of benchmark runs."""

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
        bool, typer.Option("--with-gaps", help="Include items without an answer; they score zero.")
    ] = False,
    relative_to: Annotated[
        Path | None,
        typer.Option(help="UEval: write image paths relative to this folder. Default: absolute paths."),
    ] = None,
    link: Annotated[
        Path | None,
        typer.Option(help="Checkout of SpecV in which to link the submission where its code expects it."),
    ] = None,
) -> None:
    """Write OUT/submission in the format of the official evaluator, and check it by reading it back."""
    from ...evaluation.runs import submission as collecting

    collecting.collect(out, with_gaps, relative_to, _say)
    if link is not None:
        _say(f"linked: {collecting.link(out, link)}")


@with_model_options
def score(
    *,
    out: Folder,
    results: Annotated[
        Path | None, typer.Option(help="Results of the official evaluator. Not needed for tinyworld.")
    ] = None,
    official: Annotated[
        Path | None,
        typer.Option(help="Checkout of the official evaluator, which is run unchanged with --judge."),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(help="Python with the requirements of the official evaluator. Default: this one."),
    ] = None,
    silence: Annotated[
        float,
        typer.Option(
            min=1.0, help="Timeout of the official evaluator: seconds without a question to the judge."
        ),
    ] = 900.0,
    repeats: Annotated[
        int,
        typer.Option(
            min=1, max=20, help="Number of times to ask --judge, to measure its agreement with itself."
        ),
    ] = 1,
    order_swap: Annotated[
        bool,
        typer.Option("--order-swap", help="Ask --judge in both orders if two images are compared (RISE)."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Start even if a hosted judge may cost money.")] = False,
    judge: JudgeOptions,
) -> None:
    """Compute scores with confidence intervals: OUT/scores.json, and OUT/scores.md, which is also printed.

    There are three ways: --results reads the results of the official evaluator, --official runs this
    evaluator with --judge, and --judge alone uses our own questions. Scores of our own questions are not
    comparable with published tables.
    """
    from ...evaluation.runs.scores import as_lines
    from ...evaluation.runs.scores import score as scored

    if results is not None and (official is not None or judge.judge is not None):
        made_by = "--judge" if official is None else "--official"
        raise SettingsError(f"--results cannot be combined with {made_by}.", "Remove one of them.")
    own = official is None and judge.judge is not None
    if not own and (repeats > 1 or order_swap):
        raise SettingsError(
            "--repeats and --order-swap only apply to our own questions.",
            "Use --judge without --official, or remove them.",
        )
    if official is not None:
        from ...evaluation.runs.official_scoring import ANSWERS, OfficialScoring, score_officially

        _confirm(judge, "The questions of the official evaluator", yes)
        how = OfficialScoring(official, python or sys.executable, judge.judge_parallel, silence)
        found = score_officially(out, how, lambda: judge.open(out / ANSWERS), _say)
    else:
        found = _by_judge(out, judge, repeats, order_swap, yes) if own else scored(out, results)
    for line in as_lines(found):
        _say(line)


def _confirm(judge: JudgeOptions, questions: str, yes: bool) -> None:
    """End the command if a hosted judge is used without --yes."""
    from ...backend.remote.addresses import hosted_specs

    if hosted_specs([judge.judge or ""]) and not yes:
        _say(f"{questions} go to {judge.judge}, which is hosted and may cost money. Add --yes to start.")
        raise typer.Exit(3)


def _by_judge(out: Path, judge: JudgeOptions, repeats: int, order_swap: bool, yes: bool) -> BenchmarkScores:
    """Return the scores of our own questions; the judge's answers are cached in OUT/answers.sqlite."""
    from ...evaluation.runs.own_scoring import OwnScoring, score, to_ask

    questions = to_ask(out)
    opened = judge.open(out / "answers.sqlite")
    try:
        scoring = OwnScoring(opened, repeats, order_swap, judge.judge_parallel)
        _confirm(judge, f"{questions.calls(scoring)} questions (including cached ones)", yes)
        return score(questions, scoring, _say)
    finally:
        opened.close()


def compare(
    first: Folder,
    second: Annotated[
        Path, typer.Argument(help="Folder of another run on the same data.", exists=True, file_okay=False)
    ],
    page: Annotated[
        Path | None, typer.Option(help="Write an HTML page of the items that differ most.")
    ] = None,
) -> None:
    """Compare two scored runs item by item."""
    from ...evaluation.runs import comparison as comparing

    for line in comparing.as_lines(comparing.compare(first, second)):
        _say(line)
    if page is not None:
        from ...evaluation.runs.pages import comparison

        _say(f"page: {comparison.write(first, second, page)}")


def table(
    folders: Annotated[
        list[Path], typer.Argument(help="Scored folders of the same benchmark and judge.", exists=True)
    ],
) -> None:
    """Print scored runs in one table: scores, images and seconds per item, steps that were not accepted."""
    from ...evaluation.runs.pages.table import table as tabled

    for line in tabled(folders):
        _say(line)


def _say(line: str) -> None:
    typer.echo(shown_text(line))
