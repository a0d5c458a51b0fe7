"""`evaluate ablation`: what each stage of training is worth, over several seeds."""

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
    out: Annotated[Path, typer.Option(help="Folder of all trainings and figures; the same one goes on.")],
    settings: AblationSettings,
    reports: Annotated[
        list[Path] | None,
        typer.Option("--with", help="ablation.json of another run of the same settings; again for more."),
    ] = None,
) -> None:
    """Train planner and critic with one part left out at a time, over several seeds, and tabulate what each
    is worth; seeds of other runs join the table with --with."""
    from ...evaluation.checkout import commit
    from ...tinyworld.lab.ablation.outcomes import read_report
    from ...tinyworld.lab.ablation.run import ablate, as_markdown

    others = [read_report(path) for path in reports or ()]
    asked = shlex.join(["interleave-thinker", *sys.argv[1:]])
    typer.echo(as_markdown(ablate(out, settings, asked, commit(), _log, others)))


def _log(line: str) -> None:
    typer.echo(line, err=True)
