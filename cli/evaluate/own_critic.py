"""`evaluate own-critic`: retrains the tiny world's critic on new runs and measures the effect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...tinyworld.lab.own_critic.evaluate import ShowSettings
from ..options.models import with_model_options


@with_model_options
def command(
    *,
    out: Annotated[Path, typer.Option(help="Output folder. Use an existing one to resume.")],
    settings: ShowSettings,
) -> None:
    """Retrain the tiny world's critic on runs with a new kind of mistake, and measure what it learned."""
    from ...tinyworld.lab.own_critic.evaluate import as_lines, show

    def log(line: str) -> None:
        typer.echo(line, err=True)

    for line in as_lines(show(out, settings, log)):
        typer.echo(line)
