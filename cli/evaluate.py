"""`evaluate`: measures agents, scorers and training stages, with confidence intervals."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..backend.core.errors import SettingsError
from ..research.tinyworld.ablation.settings import AblationSettings
from .models import CriticOptions, LocalOptions, Opener
from .settings import with_settings
from .shared_options import SCORERS, ImagesAtATime, SkipBadRuns

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Measure a critic's checklist and calibration, scorers, and the training stages in the tiny world.",
)


@app.callback()
def measures() -> None:
    """Measure a critic's checklist and calibration, scorers, and the training stages in the tiny world."""


def _log(line: str) -> None:
    typer.echo(line, err=True)


@app.command("ablation")
@with_settings
def ablation(
    *,
    out: Annotated[Path, typer.Option(help="Output folder. Use an existing one to resume.")],
    settings: AblationSettings,
) -> None:
    """Train planner and critic with one part left out at a time, and measure the effect of each part."""
    from ..research.evaluation.benchmark_run import commit
    from ..research.tinyworld.ablation.report import ablate, as_markdown

    command_line = shlex.join(["interleave-thinker", *sys.argv[1:]])
    typer.echo(as_markdown(ablate(out, settings, command_line, commit(), _log)))


@app.command("calibration")
def calibration(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders with people's verdicts, or folders of such folders.")
    ],
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            help="Folder of the critic's checkpoint or adapter. The calibration is stored in its agent card, "
            "if it certainly helps.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the cross-validation.")] = 0,
) -> None:
    """Calibrate a critic's P(success) on people's verdicts, so that 0.8 means 80 %.

    The exit code is 3 if the calibration does not certainly help. It is then not stored.
    """
    from ..training.gate.calibration import calibrate, judged_by_people, store_calibration

    found = calibrate(judged_by_people(runs), seed)
    typer.echo(f"{found.calibration.images} images with a person's verdict")
    typer.echo(f"calibration error: {found.before:.3f}, calibrated {found.after:.3f}")
    typer.echo(f"squared error falls by {found.gain}")
    for probability in (0.5, 0.9, 0.99, 0.999):
        typer.echo(f"P(success) {probability} becomes {found.calibration.apply(probability):.2f}")
    if not found.helps:
        typer.echo("The calibration does not certainly help, and is not stored.")
        raise typer.Exit(3)
    if save is not None:
        store_calibration(save, found.calibration)
        typer.echo(f"Saved in {save}.")


@app.command("critic")
@with_settings
def critic(
    judging: CriticOptions,
    local: LocalOptions,
    items: Annotated[
        list[Path] | None,
        typer.Option("--items", help="JSON file with items whose truth is known; repeat for several."),
    ] = None,
    runs: Annotated[
        list[Path] | None,
        typer.Option(
            "--runs",
            help="Folder of runs of this critic with people's verdicts on items; repeat for several.",
        ),
    ] = None,
    made: Annotated[
        int, typer.Option(min=0, help="Made items of each of the kinds count, color, place and text.")
    ] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the made items.")] = 0,
    save: Annotated[
        bool,
        typer.Option("--save", help="Store the result in the critic's agent card. Runs then apply it."),
    ] = False,
) -> None:
    """Measure which kinds of questions of a checklist a critic can answer.

    A kind in which it is not better than chance never rejects an image once the result is saved.
    """
    from ..training.gate.reliability import (
        answered_items,
        as_lines,
        made_items,
        measure_reliability,
        read_labeled,
        store_reliability,
    )

    asked = [one for path in items or () for one in read_labeled(path)] + made_items(made, seed)
    if not asked and not runs:
        raise SettingsError("Nothing to ask about was given.", "Give --items, --runs, or --made above 0.")
    opener = Opener(local)
    critic = opener.critic(judging)
    opener.finish()
    if critic is None:
        raise SettingsError("`evaluate critic` needs a critic, but --critic is none.", "Name a critic.")
    folder = critic.chat.trained.folder if critic.chat.trained else None
    if save and folder is None:
        raise SettingsError(
            "--save needs a critic with a folder of its own, such as transformers:FOLDER.",
            "Omit --save; the table is printed.",
        )

    recorded = answered_items(runs, critic.chat.identity.partition("|")[0], _log) if runs else []
    found = measure_reliability(critic.check, asked, recorded, _log)
    for line in as_lines(found):
        typer.echo(line)
    if save and folder is not None:
        store_reliability(folder, found)
        typer.echo(f"Saved in {folder}.")


@app.command("scorer")
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
    from ..backend.core.files.atomic import write_text
    from ..backend.models.scorers import SCORERS as REGISTERED
    from ..backend.models.scorers import open_scorer
    from ..research.evaluation.agreement import (
        CRITIC,
        annotated_images,
        as_lines,
        check_verdicts,
        critic_scores,
        measure,
        scored,
    )
    from ..training.content_cache import ContentCache

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
