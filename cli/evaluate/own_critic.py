"""`evaluate own-critic`: a critic of one's own, shown end to end in the tiny world."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...tinyworld.lab.own_critic.evaluate import ShowSettings
from ..options.models import with_model_options


@with_model_options
def command(
    *,
    out: Annotated[
        Path, typer.Option(help="Folder of runs, training and figures; the same folder again goes on.")
    ],
    settings: ShowSettings,
) -> None:
    """Retrain the tiny world's critic on runs of a generator that fails in a new way, and measure what it
    learned."""
    from ...tinyworld.lab.own_critic.evaluate import as_lines, show

    def log(line: str) -> None:
        typer.echo(line, err=True)

    for line in as_lines(show(out, settings, log)):
        typer.echo(line)
