"""`data trajectories`: prompts in, one run's folder for each out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.agents.plan_constraints import PlanConstraints
from ...backend.shown_text import shown_text
from ...training.data.trajectories.options import TrajectoryOptions
from ..open_models import TINY_WORLD, CriticOptions, DrawingOptions, GeneratorOptions, LocalOptions
from ..open_models import PlannerOptions as Planning
from ..options.models import with_model_options
from ..options.teachers import (
    Parallel,
    RayAddress,
    TeacherOptions,
    Workers,
    each_generator,
    exit_code,
    open_executor,
)


@with_model_options
def command(
    *,
    prompts: Annotated[
        Path, typer.Argument(help='Prompts as JSONL: {"id", "user_input", "user_input_image"?} a line.')
    ],
    out: Annotated[Path, typer.Option(help="Folder of the runs; the same command goes on in it.")],
    images: Annotated[
        Path | None, typer.Option(help="Where the prompts' images are looked for besides their own folder.")
    ] = None,
    generator: Annotated[
        list[str] | None,
        typer.Option(help="Image model, such as diffusers:FOLDER or http:URL; repeat to mix several by id."),
    ] = None,
    parallel: Parallel = 1,
    ray: RayAddress = None,
    workers: Workers = 2,
    prices: Annotated[
        Path | None, typer.Option(help='Price list {"MODEL": {"input", "output" a million, "image"}}.')
    ] = None,
    guard: Annotated[
        Path | None, typer.Option(help="Index of benchmarks (`data guard`), of which nothing is carried out.")
    ] = None,
    settings: TrajectoryOptions,
    planning: Planning,
    judging: CriticOptions,
    drawing: DrawingOptions,
    local: LocalOptions,
) -> None:
    """Plan, draw, judge and redraw every prompt of a file: a teacher's trajectories, to learn from.

    Each prompt has a folder of its own. Stop it, kill it: the same command goes on at the attempt where it
    was.
    """
    from ...training.data.trajectories.engine import PromptFile, Trajectories
    from ...training.data.trajectories.usage import read_prices

    whole = GeneratorOptions(**drawing.model_dump())
    drawers = each_generator(generator or [TINY_WORLD], whole)
    teachers = TeacherOptions(planning, PlanConstraints(), judging, drawers, local)
    made = Trajectories(
        out,
        teachers,
        settings,
        open_executor(parallel, ray, workers),
        read_prices(prices, teachers.names) if prices else {},
        log=lambda line: typer.echo(shown_text(line)),
    ).make(PromptFile(prompts, images, guard))
    raise typer.Exit(exit_code(made))
