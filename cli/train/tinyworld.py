"""`train tinyworld-...`: trains the models of the tiny world from scratch.

The commands are in the same group as the training of real agents, because they are its stages in miniature.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...tinyworld.lab.models.generator import GeneratorTraining
from ...tinyworld.lab.models.recipes import CriticRecipe, PlannerRecipe
from ..options.models import with_model_options
from ..options.training import Out, PageRows, PageSeed, PagesOf, log


@with_model_options
def tinyworld_generator(*, out: Out, settings: GeneratorTraining) -> None:
    """Train the tiny world's generator from scratch."""
    from ...tinyworld.lab.models.generator import train

    typer.echo(f"pipeline: {train(settings, out, log)}")


@with_model_options
def tinyworld_planner(
    *,
    out: Out,
    start: Annotated[
        Path | None, typer.Option(help="Planner to start from (folder). Default: random weights.")
    ] = None,
    recipe: PlannerRecipe,
) -> None:
    """Train the tiny world's planner."""
    from ...backend.machine.libraries import TRAINERS, require

    require(*TRAINERS)
    from ...tinyworld.lab.models.recipes import train_planner

    typer.echo(f"checkpoint: {train_planner(out, recipe, start, log)}")


@with_model_options
def tinyworld_critic(
    *,
    out: Out,
    generator: Annotated[
        Path | None,
        typer.Option(
            help="Pipeline folder of the generator whose mistakes it learns. Default: the built-in one."
        ),
    ] = None,
    recipe: CriticRecipe,
) -> None:
    """Train the tiny world's critic on pages of a generator."""
    from ...backend.machine.libraries import TRAINERS, require
    from ...tinyworld.runtime import checkpoint

    require(*TRAINERS)
    from ...tinyworld.lab.models.recipes import train_critic

    typer.echo(f"checkpoint: {train_critic(out, generator or checkpoint('generator'), recipe, log)}")


def tinyworld_rl_data(
    *,
    out: Annotated[Path, typer.Option(help="Output folder for critic_rl.jsonl and its pages.")],
    rows: PageRows = 1000,
    generator: PagesOf = None,
    seed: PageSeed = 0,
) -> None:
    """Make reinforcement learning rows (critic_rl.jsonl) for the tiny critic from pages of a generator."""
    from ...backend.generators import open_generator
    from ...tinyworld.lab.data.critic_rows import make_rl

    opened = open_generator(f"tinyworld:{generator}" if generator else "tinyworld")
    typer.echo(f"data: {make_rl(out, opened.pipeline, rows, seed, opened.identity)}")  # type: ignore[attr-defined]


TINYWORLD = {
    "tinyworld-generator": tinyworld_generator,
    "tinyworld-planner": tinyworld_planner,
    "tinyworld-critic": tinyworld_critic,
    "tinyworld-rl-data": tinyworld_rl_data,
}
"""Commands by name, in the order of `train --help`."""
