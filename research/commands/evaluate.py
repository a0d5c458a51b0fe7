"""`evaluate ablation` and `evaluate scorer`: measure the training stages, and scorers against people."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ...backend.core.errors import SettingsError
from ...cli.settings import with_settings
from ...cli.shared_options import SCORERS, ImagesAtATime, SkipBadRuns
from ..tinyworld.ablation.training import AblationSettings


def _log(line: str) -> None:
    typer.echo(line, err=True)


@with_settings
def ablation(
    *,
    out: Annotated[Path, typer.Option(help="Output folder. Use an existing one to resume.")],
    start: Annotated[
        Path,
        typer.Option(
            help="Folder with the checkpoints base and novice, such as tests/data/agents of a checkout."
        ),
    ],
    settings: AblationSettings,
) -> None:
    """Train planner and critic with one part left out at a time, and measure the effect of each part."""
    from ..evaluation.benchmark_run import commit
    from ..tinyworld.ablation.report import ablate, as_markdown

    command_line = shlex.join(["interleave-thinker", *sys.argv[1:]])
    typer.echo(as_markdown(ablate(out, start, settings, command_line, commit(), _log)))


def scorer(
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
    from ...backend.core.files.atomic import write_text
    from ...backend.models.scorers import SCORERS as REGISTERED
    from ...backend.models.scorers import open_scorer
    from ...training.content_cache import ContentCache
    from ..evaluation.agreement import (
        CRITIC,
        annotated_images,
        as_lines,
        check_verdicts,
        critic_scores,
        measure,
        scored,
    )

    # First, so that an unknown name is an error before hours of scoring.
    for spec in scorer:
        REGISTERED.load(spec.partition(":")[0].partition("[")[0])
    images = annotated_images(runs, skip_bad, _log)
    check_verdicts(images)
    kept = ContentCache(cache, "Score cache") if cache else None
    found = [(CRITIC, critic_scores(images))] if any(one.critic is not None for one in images) else []
    for spec in scorer:
        _log(f"scoring {len(images)} images with {spec}")
        found.append((spec, scored(open_scorer(spec), images, kept, parallel)))
    report = measure(images, found)
    for line in as_lines(report):
        typer.echo(line)
    if json_file is not None:
        write_text(json_file, report.model_dump_json(indent=2) + "\n", SettingsError, "Report")
