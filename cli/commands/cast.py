"""`interleave-thinker cast`: generates images for the members of a cast, and keeps them as references."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.core.types import RunSettings
from ...backend.pipeline.cast_file import keep_sheets, read_cast, sheets_of
from ...backend.story.loop.replay import load_trajectory
from ..models import (
    NONE,
    CastOptions,
    CriticOptions,
    GeneratorOptions,
    LocalOptions,
    PlannerOptions,
)
from ..progress import Lines
from ..run_request import ModelOptions, carry_out
from ..settings import with_settings

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Generate reference images for the members of a cast, and keep them.",
)
CastFile = Annotated[Path, typer.Argument(help="The cast file, such as cast.yaml.")]


@app.command("sheets")
@with_settings
def sheets(
    cast: CastFile,
    *,
    out: Annotated[Path, typer.Option("--out", help="Run folder. Use an existing one to resume its run.")],
    judging: CriticOptions,
    drawing: GeneratorOptions,
    settings: RunSettings,
    local: LocalOptions,
) -> None:
    """Generate an image of each member that has none, from its traits.

    This is a run like any other: the critic judges each image, and `redraw` requests another one. When you
    like the images, `cast keep` makes them references.
    """
    request, plan = sheets_of(read_cast(cast))
    models = ModelOptions(PlannerOptions(), judging, drawing, local, cast=CastOptions(cast=NONE))
    outcome = carry_out(request, out, settings, models, plan)
    if outcome.page:
        Lines().say(f"To keep the images: interleave-thinker cast keep {cast} {out}")
    raise typer.Exit(outcome.code)


@app.command("keep")
def keep(
    cast: CastFile,
    run: Annotated[
        Path, typer.Argument(help="The --out folder of `cast sheets`.", exists=True, file_okay=False)
    ],
    member: Annotated[
        list[str] | None,
        typer.Option(
            help="Keep the image of this member only, even if it was rejected. Repeat it for several."
        ),
    ] = None,
) -> None:
    """Store the images of `cast sheets` next to the cast file, and name them in it.

    Without --member, rejected images are left out. Comments in the cast file are lost; the previous file is
    kept with the ending .bak.
    """
    kept, rejected = keep_sheets(cast, load_trajectory(run), member or ())
    lines = Lines()
    if kept:
        lines.say(f"{', '.join(kept)}: image added to {cast}")
    if rejected:
        lines.say(f"{', '.join(rejected)}: rejected, not kept. Keep it anyway with --member.")
    raise typer.Exit(0 if kept and not rejected else 3)
