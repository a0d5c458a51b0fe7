"""`data planner-rows`: accepted trajectories become a planner's rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ...backend.shown_text import shown_text
from ...training.data.planner_rows.settings import PlannerRowsData
from ..model_options import with_model_options


@with_model_options
def command(
    *,
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Folders of runs, or published ones with their records.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for planner_sft.json, its images and report.json.")],
    prompts: Annotated[
        str | None,
        typer.Option(
            "--planner-prompts",
            help="Prompt set of the planner that is to learn: its checkpoint's folder, or that of a prompt "
            "set; empty: the pack's own wording.",
        ),
    ] = None,
    outside: Annotated[
        list[str] | None,
        typer.Option(help="Another set: rows:FILE (messages and images, JSON) or runs:FOLDER; repeat."),
    ] = None,
    guard: Annotated[
        Path | None, typer.Option(help="Index of benchmarks (`data guard`), of which nothing is taught.")
    ] = None,
    settings: PlannerRowsData,
) -> None:
    """Turn trajectories into rows for planner-sft: whole plans, continuations, descriptions, counted ones."""
    from ...backend.prompts import default_prompt_set
    from ...training.data.planner_rows.make import SFT_FILE, PlannerRows
    from ..open_models import prompts_in

    folders, files = list(runs or []), []
    for spec in outside or []:
        kind, _, place = spec.partition(":")
        if kind not in ("rows", "runs") or not place:
            raise SettingsError(f"{spec!r} is no outside set.", "Write rows:FILE or runs:FOLDER.")
        (files if kind == "rows" else folders).append(Path(place))
    if not folders and not files:
        raise SettingsError("There is nothing to make rows of.", "Give folders of runs, or --outside.")
    maker = PlannerRows(
        settings,
        prompts_in(prompts) or default_prompt_set(),
        guard,
        lambda line: typer.echo(shown_text(line)),
    )
    maker.make(folders, files, out)
    typer.echo(f"\ndata: {out / SFT_FILE}")
