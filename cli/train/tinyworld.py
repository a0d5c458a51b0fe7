"""`train tinyworld-...`: the commands that make the models of the tiny world anew.

Decision: they stand beside the training of real agents because they are its stages in miniature, with recipes
of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...tinyworld.lab.models.generator_batches import GeneratorTraining
from ...tinyworld.lab.models.recipes import BaseRecipe, CriticRecipe, PlannerRecipe
from ..options.models import with_model_options
from ..options.training import Out, PageRows, PageSeed, PagesOf, log


@with_model_options
def tinyworld_generator(*, out: Out, settings: GeneratorTraining) -> None:
    """Make the tiny world's generator."""
    from ...tinyworld.lab.models.generator import train

    typer.echo(f"pipeline: {train(settings, out, log)}")


@with_model_options
def tinyworld_base(*, out: Out, recipe: BaseRecipe) -> None:
    """Make agents that can read and see and have never planned a story nor judged a page: to begin from."""
    from ...backend.machine.requirements import TRAINERS, require

    require(*TRAINERS)
    from ...tinyworld.lab.models.base import train_base

    for checkpoint in train_base(out, recipe, log):
        typer.echo(f"checkpoint: {checkpoint}")


@with_model_options
def tinyworld_planner(
    *,
    out: Out,
    start: Annotated[
        Path | None, typer.Option(help="Folder of a planner to go on from; empty: from random weights.")
    ] = None,
    recipe: PlannerRecipe,
) -> None:
    """Make the tiny world's planner."""
    from ...backend.machine.requirements import TRAINERS, require

    require(*TRAINERS)
    from ...tinyworld.lab.models.recipes import train_planner

    typer.echo(f"checkpoint: {train_planner(out, recipe, start, log)}")


@with_model_options
def tinyworld_critic(
    *,
    out: Out,
    generator: Annotated[
        Path | None, typer.Option(help="Pipeline folder to learn the mistakes of; empty: the shipped one.")
    ] = None,
    recipe: CriticRecipe,
) -> None:
    """Make the tiny world's critic, from a generator's real pages."""
    from ...backend.machine.requirements import TRAINERS, require
    from ...tinyworld.runtime import checkpoint

    require(*TRAINERS)
    from ...tinyworld.lab.models.recipes import train_critic

    typer.echo(f"checkpoint: {train_critic(out, generator or checkpoint('generator'), recipe, log)}")


def tinyworld_rl_data(
    *,
    out: Annotated[Path, typer.Option(help="Folder for critic_rl.jsonl and its pages.")],
    rows: PageRows = 1000,
    generator: PagesOf = None,
    seed: PageSeed = 0,
) -> None:
    """Make rows for the tiny critic's reinforcement learning from a generator's real pages."""
    from ...backend.generators import open_generator
    from ...tinyworld.lab.data.rl_rows import make_rl

    drawer = open_generator(f"tinyworld:{generator}" if generator else "tinyworld")
    typer.echo(f"data: {make_rl(out, drawer.pipeline, rows, seed, drawer.identity)}")  # type: ignore[attr-defined]


TINYWORLD = {
    "tinyworld-generator": tinyworld_generator,
    "tinyworld-base": tinyworld_base,
    "tinyworld-planner": tinyworld_planner,
    "tinyworld-critic": tinyworld_critic,
    "tinyworld-rl-data": tinyworld_rl_data,
}
"""Commands by their names, in the order of `train --help`."""
