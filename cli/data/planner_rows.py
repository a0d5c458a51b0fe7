"""`data planner-rows`: accepted trajectories become a planner's rows."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ...backend.shown_text import shown_text
from ...training.data.planner_rows.settings import PlannerRowsData
from ..options.models import with_model_options
from ..options.teachers import RayAddress, RowWorkers, open_executor_for


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
            help="Prompt set of the planner that is to learn: its checkpoint's folder, "
            "or that of a prompt set, or tinyworld:planner; empty: the pack's own wording.",
        ),
    ] = None,
    outside: Annotated[
        list[str] | None,
        typer.Option(
            help="Another set: rows:FILE (messages and images, JSON), runs:FOLDER, "
            "or comm:FOLDER (CoMM's train_data.pth and images); repeat."
        ),
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            help="Chat model that writes the prompts of CoMM's pictures, such as openai:MODEL@URL; "
            "without one its items teach descriptions alone."
        ),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help="Checkpoint of the planner that is to learn: "
            "rows longer than --max-length are cut between steps."
        ),
    ] = None,
    guard: Annotated[
        Path | None, typer.Option(help="Index of benchmarks (`data guard`), of which nothing is taught.")
    ] = None,
    ray: RayAddress = None,
    workers: RowWorkers = 2,
    settings: PlannerRowsData,
) -> None:
    """Turn trajectories into rows for planner-sft: whole plans, continuations, descriptions, counted ones."""
    from ...backend.chat import open_chat
    from ...backend.prompts import default_prompt_set
    from ...training.data.planner_rows.make import SFT_FILE, OutsideSets, PlannerRows
    from ..open_models import prompts_in

    places: dict[str, list[Path]] = defaultdict(list, runs=list(runs or []))
    for spec in outside or []:
        kind, _, place = spec.partition(":")
        if kind not in ("rows", "runs", "comm") or not place:
            raise SettingsError(
                f"{spec!r} is no outside set.", "Write rows:FILE, runs:FOLDER or comm:FOLDER."
            )
        places[kind].append(Path(place))
    if not any(places.values()):
        raise SettingsError("There is nothing to make rows of.", "Give folders of runs, or --outside.")
    if teacher and not places["comm"]:
        raise SettingsError("A teacher writes prompts for CoMM alone.", "Give --outside comm:FOLDER with it.")
    fits = None
    if tokenizer is not None:
        from ...training.data.planner_rows.fit import TokenFit

        fits = TokenFit(tokenizer, settings.max_length)
    sets = OutsideSets(places["rows"], places["comm"], open_chat(teacher) if teacher else None)
    maker = PlannerRows(
        settings,
        prompts_in(prompts) or default_prompt_set(),
        guard,
        lambda line: typer.echo(shown_text(line)),
        fits,
        open_executor_for(places["runs"], settings.parallel, ray, workers),
    )
    maker.make(places["runs"], out, sets)
    typer.echo(f"\ndata: {out / SFT_FILE}")
