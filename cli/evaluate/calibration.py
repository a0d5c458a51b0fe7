"""`evaluate calibration`: fits P(success) of a critic to verdicts of people, and stores the result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
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
    from ...training.gate.calibration import calibrate, judged_by_people, store_calibration

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
