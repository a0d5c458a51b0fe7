"""`train publish`: uploads a trained checkpoint to the Hugging Face Hub."""

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
    repo: Annotated[str, typer.Option(help="Repository of the hub, such as YOUR-NAME/my-critic.")],
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
            help="Also upload a critic that was not measured by the regression gate or did not pass it.",
        ),
    ] = False,
    public: Annotated[
        bool,
        typer.Option("--public", help="Create a public repository. Default: private, to read it first."),
    ] = False,
) -> None:
    """Upload a checkpoint to the Hugging Face Hub: its own files and a model card, without local paths.

    Log in with `hf auth login` before.
    """
    from ...training.trainer.model_card import publish

    typer.echo(f"uploaded: {publish(folder, repo, license, without_gate, public)}")
