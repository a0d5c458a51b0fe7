"""`evaluate ablation`: measures the training stages."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ...cli.settings import with_settings
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
