"""`evaluate ablation`: measures the effect of each training stage over several seeds."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ...tinyworld.lab.ablation.settings import AblationSettings
from ..options.models import with_model_options


@with_model_options
def command(
    *,
    out: Annotated[Path, typer.Option(help="Output folder. Use an existing one to resume.")],
    settings: AblationSettings,
    reports: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            help="ablation.json of another run with the same settings, whose seeds are "
            "added. Repeat for several.",
        ),
    ] = None,
) -> None:
    """Train planner and critic with one part left out at a time, and measure the effect of each part."""
    from ...evaluation.benchmark_run import commit
    from ...tinyworld.lab.ablation.outcomes import read_report
    from ...tinyworld.lab.ablation.run import ablate, as_markdown

    others = [read_report(path) for path in reports or ()]
    command_line = shlex.join(["interleave-thinker", *sys.argv[1:]])
    typer.echo(as_markdown(ablate(out, settings, command_line, commit(), _log, others)))


def _log(line: str) -> None:
    typer.echo(line, err=True)
