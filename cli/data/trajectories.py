"""`data trajectories`: carries out a file of requests, each in its own run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.agents.plan_constraints import PlanConstraints
from ...backend.shown_text import shown_text
from ...training.data.trajectories.options import TrajectoryOptions
from ..options.model_options import TINY_WORLD, CriticOptions, DrawingOptions, GeneratorOptions, LocalOptions
from ..options.model_options import PlannerOptions as Planning
from ..options.models import with_model_options
from ..options.panels import COST
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
        Path, typer.Argument(help='Requests as JSONL: {"id", "user_input", "user_input_image"?} per line.')
    ],
    out: Annotated[Path, typer.Option(help="Folder for the run folders. Use an existing one to resume.")],
    images: Annotated[
        Path | None, typer.Option(help="Second folder in which to look for the images of the requests.")
    ] = None,
    generator: Annotated[
        list[str] | None,
        typer.Option(
            help="Image model, such as diffusers:FOLDER or http:URL. Repeat to distribute the requests by id."
        ),
    ] = None,
    parallel: Parallel = 1,
    ray: RayAddress = None,
    workers: Workers = 2,
    prices: Annotated[
        Path | None,
        typer.Option(
            help='JSON price list {"MODEL": {"input", "output", "image"}}; tokens per million.',
            rich_help_panel=COST,
        ),
    ] = None,
    guard: Annotated[
        Path | None, typer.Option(help="Benchmark index (`data guard`). Matching requests are left out.")
    ] = None,
    settings: TrajectoryOptions,
    planning: Planning,
    judging: CriticOptions,
    drawing: DrawingOptions,
    local: LocalOptions,
) -> None:
    """Plan, generate, judge and refine every request of a file: trajectories of a teacher, as training data.

    Each request has its own run folder. Run the same command again to resume at the last attempt.
    """
    from ...training.data.trajectories.engine import PromptFile, Trajectories
    from ...training.data.trajectories.usage import read_prices

    shared = GeneratorOptions(**drawing.model_dump())
    generators = each_generator(generator or [TINY_WORLD], shared)
    teachers = TeacherOptions(planning, PlanConstraints(), judging, generators, local)
    made = Trajectories(
        out,
        teachers,
        settings,
        open_executor(parallel, ray, workers),
        read_prices(prices, teachers.names) if prices else {},
        log=lambda line: typer.echo(shown_text(line)),
    ).make(PromptFile(prompts, images, guard))
    raise typer.Exit(exit_code(made))
