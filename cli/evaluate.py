"""`evaluate`: measures a critic. Plug-ins add the measurements of scorers and of the training stages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..backend.core.errors import SettingsError
from .models import CriticOptions, LocalOptions, Opener
from .settings import with_settings

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Measure a critic's checklist and its calibration.",
)


@app.callback()
def measures() -> None:
    """Measure a critic's checklist and its calibration."""


def _log(line: str) -> None:
    typer.echo(line, err=True)


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
        store_reliability,
    )

    asked = made_items(made, seed)
    if not asked and not runs:
        raise SettingsError("Nothing to ask about was given.", "Give --runs, or --made above 0.")
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
