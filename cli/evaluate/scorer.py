"""`evaluate scorer`: measures how well scorers agree with people's verdicts on a user's own runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ..options.runs import SCORERS, SkipBadRuns
from ..options.teachers import ImagesAtATime


def command(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Run folders with people's verdicts, or folders of such folders."),
    ] = None,
    scorer: Annotated[
        list[str] | None,
        typer.Option("--scorer", help=f"Scorer to measure: {SCORERS}. Repeat it to compare several."),
    ] = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="List all scorers with license, memory and range, and exit.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="JSON file for all results.")] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Cache file of scores, so that an interrupted measurement can be repeated."),
    ] = None,
    parallel: ImagesAtATime = 1,
    skip_bad: SkipBadRuns = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the bootstrap and of the folds.")] = 0,
) -> None:
    """Measure how well scorers agree with people's verdicts: AUC, accuracy, correlations, pairs of a step.

    The verdicts are those of the thumbs, the Feedback node and corrections. The first row is the critic of
    the runs.
    """
    from ...backend.scorers import SCORERS as REGISTERED
    from ...backend.scorers import about_scorer, open_scorer
    from ...evaluation.agreement.report import about_lines

    if list_all:
        for line in about_lines([about_scorer(name) for name in REGISTERED.names]):
            typer.echo(line)
        return
    if not runs or not scorer:
        raise SettingsError("`evaluate scorer` needs runs and --scorer.", "Or list all scorers with --list.")
    from ...backend.files.atomic import write_text
    from ...evaluation.agreement.annotated import annotated_images, check_verdicts, scored
    from ...evaluation.agreement.report import CRITIC, as_lines, critic_scores, measure
    from ...training.content_cache import ContentCache

    def log(line: str) -> None:
        typer.echo(line, err=True)

    # First, so that an unknown name is an error before hours of scoring.
    about = about_lines([about_scorer(spec) for spec in scorer])
    images = annotated_images(runs, skip_bad, log)
    check_verdicts(images)
    kept = ContentCache(cache, "Score cache") if cache else None
    found = [(CRITIC, critic_scores(images))] if any(one.critic is not None for one in images) else []
    for spec in scorer:
        log(f"scoring {len(images)} images with {spec}")
        found.append((spec, scored(open_scorer(spec), images, kept, parallel)))
    report = measure(images, found, seed)
    for line in [*as_lines(report), "", *about]:
        typer.echo(line)
    if json_file is not None:
        write_text(json_file, report.model_dump_json(indent=2) + "\n", SettingsError, "Report")
