"""`data planner-rows`: makes planner rows from accepted trajectories."""

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
        list[Path] | None, typer.Argument(help="Run folders, or published folders with execution records.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Output folder for planner_sft.json, its images and report.json.")
    ],
    prompts: Annotated[
        str | None,
        typer.Option(
            "--planner-prompts",
            help="Prompt set of the planner to train: a folder of a checkpoint or a prompt set, or "
            "tinyworld:planner. "
            "Default: the built-in prompt set.",
        ),
    ] = None,
    outside: Annotated[
        list[str] | None,
        typer.Option(
            help="External dataset: rows:FILE (JSON with messages and images), runs:FOLDER or comm:FOLDER "
            "(CoMM's "
            "train_data.pth and images). Repeat for several."
        ),
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            help="Chat model that writes prompts for CoMM's images, such as openai:MODEL@URL. "
            "Without it, CoMM items only give description rows."
        ),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help="Checkpoint of the planner to train. With its tokenizer, rows longer than --max-length are "
            "cut "
            "between steps."
        ),
    ] = None,
    guard: Annotated[
        Path | None, typer.Option(help="Benchmark index (`data guard`). Matching items are left out.")
    ] = None,
    ray: RayAddress = None,
    workers: RowWorkers = 2,
    settings: PlannerRowsData,
) -> None:
    """Make rows for planner-sft from trajectories.

    They are complete plans, continuations, descriptions and plans with a given number of steps.
    """
    from ...backend.chat import open_chat
    from ...backend.prompts import default_prompt_set
    from ...training.data.planner_rows.make import SFT_FILE, OutsideSets, PlannerRows
    from ..open_models import prompts_in

    places: dict[str, list[Path]] = defaultdict(list, runs=list(runs or []))
    for spec in outside or []:
        kind, _, place = spec.partition(":")
        if kind not in ("rows", "runs", "comm") or not place:
            raise SettingsError(
                f"--outside {spec!r} is not valid.", "Use rows:FILE, runs:FOLDER or comm:FOLDER."
            )
        places[kind].append(Path(place))
    if not any(places.values()):
        raise SettingsError(
            "`data planner-rows` needs runs or external datasets.", "Give run folders or --outside."
        )
    if teacher and not places["comm"]:
        raise SettingsError(
            "--teacher only applies to CoMM.", "Add --outside comm:FOLDER, or remove --teacher."
        )
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
