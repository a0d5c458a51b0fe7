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
        list[Path],
        typer.Argument(help="Run folders with people's verdicts, or folders of such folders."),
    ],
    scorer: Annotated[
        list[str],
        typer.Option("--scorer", help=f"Scorer to measure: {SCORERS}. Repeat it to measure several."),
    ],
    json_file: Annotated[Path | None, typer.Option("--json", help="JSON file for all results.")] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Cache file of scores, so that an interrupted measurement can be repeated."),
    ] = None,
    parallel: ImagesAtATime = 1,
    skip_bad: SkipBadRuns = False,
) -> None:
    """Measure how well scorers agree with people's verdicts: the AUC of their scores.

    The verdicts are those of the thumbs, the Feedback node and corrections. The first row is the critic of
    the runs.
    """
    from ...backend.files.atomic import write_text
    from ...backend.scorers import SCORERS as REGISTERED
    from ...backend.scorers import open_scorer
    from ...evaluation.agreement import (
        CRITIC,
        annotated_images,
        as_lines,
        check_verdicts,
        critic_scores,
        measure,
        scored,
    )
    from ...training.content_cache import ContentCache

    def log(line: str) -> None:
        typer.echo(line, err=True)

    # First, so that an unknown name is an error before hours of scoring.
    for spec in scorer:
        REGISTERED.load(spec.partition(":")[0].partition("[")[0])
    images = annotated_images(runs, skip_bad, log)
    check_verdicts(images)
    kept = ContentCache(cache, "Score cache") if cache else None
    found = [(CRITIC, critic_scores(images))] if any(one.critic is not None for one in images) else []
    for spec in scorer:
        log(f"scoring {len(images)} images with {spec}")
        found.append((spec, scored(open_scorer(spec), images, kept, parallel)))
    report = measure(images, found)
    for line in as_lines(report):
        typer.echo(line)
    if json_file is not None:
        write_text(json_file, report.model_dump_json(indent=2) + "\n", SettingsError, "Report")
