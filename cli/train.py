"""`train`: supervised fine-tuning of any planner or critic, and the recipes of the tiny world's three checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..training.sft import SftTraining
from ..training.tinyworld.generator_batches import GeneratorTraining
from ..training.tinyworld.recipes import CriticRecipe, PlannerRecipe
from .model_options import with_model_options

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Train planner, critic and the tiny world's models."
)

Out = Annotated[Path, typer.Option(help="Folder of the run; the same folder again goes on.")]
Model = Annotated[
    Path, typer.Option(help="Checkpoint to start from: a Qwen3-VL folder.", exists=True, file_okay=False)
]
Data = Annotated[
    Path, typer.Option(help="Data file: a JSON list of messages and images.", exists=True, dir_okay=False)
]


def _log(line: str) -> None:
    typer.echo(line)


def _fine_tune(model: Path, data: Path, out: Path, settings: SftTraining) -> None:
    from ..backend.prompts import prompt_set_of
    from ..training.data import read_rows
    from ..training.sft import train

    folder = train(model, read_rows(data), data.parent, out, settings, prompt_set_of(model), _log)
    typer.echo(f"checkpoint: {folder}")


@app.command("planner-sft")
@with_model_options
def planner_sft(*, model: Model, data: Data, out: Out, settings: SftTraining) -> None:
    """Fine-tune a planner on planner_sft.json."""
    _fine_tune(model, data, out, settings)


@app.command("critic-sft")
@with_model_options
def critic_sft(*, model: Model, data: Data, out: Out, settings: SftTraining) -> None:
    """Fine-tune a critic on critic_sft.json."""
    _fine_tune(model, data, out, settings)


@app.command("tinyworld-generator")
@with_model_options
def tinyworld_generator(*, out: Out, settings: GeneratorTraining) -> None:
    """Make the tiny world's generator."""
    from ..training.tinyworld.generator import train

    typer.echo(f"pipeline: {train(settings, out, _log)}")


@app.command("tinyworld-planner")
@with_model_options
def tinyworld_planner(*, out: Out, recipe: PlannerRecipe) -> None:
    """Make the tiny world's planner."""
    from ..training.tinyworld.recipes import train_planner

    typer.echo(f"checkpoint: {train_planner(out, recipe, _log)}")


@app.command("tinyworld-critic")
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
    from ..backend.tinyworld import checkpoint
    from ..training.tinyworld.recipes import train_critic

    typer.echo(f"checkpoint: {train_critic(out, generator or checkpoint('generator'), recipe, _log)}")
