"""`train publish`: packs a trained checkpoint to share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    *,
    folder: Annotated[
        Path,
        typer.Argument(
            help="Output folder of a training, or a checkpoint in it.", exists=True, file_okay=False
        ),
    ],
    to: Annotated[
        Path, typer.Option(help="New folder for the packed checkpoint. Its name is the model's name.")
    ],
    license: Annotated[
        str | None,
        typer.Option(
            help="License, as an identifier of the Hugging Face Hub such as apache-2.0. Default: that of the "
            "base model, if its folder states it."
        ),
    ] = None,
    without_gate: Annotated[
        bool,
        typer.Option(
            "--without-gate",
            help="Also pack a critic that was not measured by the regression gate or did not pass it.",
        ),
    ] = False,
    with_report: Annotated[
        bool,
        typer.Option(
            "--with-report", help="Include report.html, which shows held-out rows with their images."
        ),
    ] = False,
) -> None:
    """Pack a checkpoint to share: its own files and a model card, without paths of this machine.

    Nothing is uploaded. The command that uploads the folder is printed.
    """
    from ...training.trainer.report.publish import Publishing, pack, upload_command

    made = pack(folder, to, Publishing(license, without_gate, with_report))
    typer.echo(f"packed: {made}")
    for path in sorted(made.rglob("*")):
        if path.is_file():
            typer.echo(f"  {path.relative_to(made).as_posix()}  {path.stat().st_size:,} bytes")
    typer.echo(f"Read {made / 'README.md'}, then upload it: {upload_command(made)}")
