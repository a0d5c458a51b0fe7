"""`data tinyworld-*` and `train tinyworld-rl-data`: the rows of the tiny world."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

PageRows = Annotated[int, typer.Option(min=2, help="Number of rows; half of them are about correct pages.")]
PagesOf = Annotated[
    Path | None, typer.Option(help="Pipeline folder of the generator. Default: the built-in one.")
]
PageSeed = Annotated[int, typer.Option(min=0, help="Random seed of the pages.")]
OLD_SEED = 40_000
"""First seed of tiny-world rows; far from the seeds that the built-in critic was trained on."""
WorldRows = Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of requests, all different.")]
WorldSeed = Annotated[int, typer.Option(min=0, help="Random seed of the requests.")]
WorldSplit = Annotated[
    Literal["train", "evaluate"],
    typer.Option(help="Training requests (train) or held-out requests (evaluate)."),
]
WorldOut = Annotated[Path, typer.Option(help="Output folder for the file and the images of its requests.")]


def make_prompts(
    *, out: WorldOut, rows: WorldRows = 400, seed: WorldSeed = 0, split: WorldSplit = "train"
) -> None:
    """Make requests that the tiny world's planner understands."""
    from ..tinyworld.data.planner_rl import make_prompts

    typer.echo(f"prompts: {make_prompts(out, rows, seed, split)}")


def make_planner_rows(*, out: WorldOut, rows: WorldRows = 2000, seed: WorldSeed = 0) -> None:
    """Make rows like those that the tiny world's planner was trained on."""
    from ...training.rows.sft import write_rows
    from ..tinyworld.data.planner_rl import make

    write_rows(out / "planner_sft.json", make(out, rows, seed))
    typer.echo(f"data: {out / 'planner_sft.json'}")


def make_planner_rl_rows(
    *,
    out: WorldOut,
    rows: WorldRows = 500,
    least: Annotated[int, typer.Option(min=1, max=20, help="Least number of steps of a story.")] = 1,
    most: Annotated[int, typer.Option(min=1, max=20, help="Greatest number of steps of a story.")] = 6,
    seed: WorldSeed = 0,
    split: WorldSplit = "train",
) -> None:
    """Make planner-grpo rows of the tiny world: requests with exact plans, which need no judge."""
    from ..tinyworld.data.planner_rl import StoryKind, make_planner_rl

    typer.echo(f"data: {make_planner_rl(out, rows, seed, StoryKind(least, most), split)}")


def make_critic_rows(
    *, out: WorldOut, rows: PageRows = 2000, generator: PagesOf = None, seed: PageSeed = 0
) -> None:
    """Generate tiny-world critic rows to mix into training, which prevents forgetting."""
    from ...tinyworld import checkpoint
    from ...tinyworld.generator import load_pipeline
    from ...training.from_runs.convert import SFT_FILE
    from ...training.rows.sft import write_rows
    from ...training.trainer.progress import TimeLeft
    from ..tinyworld.data.critic_rows import make_mistakes

    pipeline = load_pipeline(generator or checkpoint("generator"))
    made = make_mistakes(out, pipeline, rows, OLD_SEED + seed, TimeLeft("rows", typer.echo))
    write_rows(out / SFT_FILE, made)
    typer.echo(f"data: {out / SFT_FILE}")


def make_rl_rows(
    *,
    out: Annotated[Path, typer.Option(help="Output folder for critic_rl.jsonl and its pages.")],
    rows: PageRows = 1000,
    generator: PagesOf = None,
    seed: PageSeed = 0,
) -> None:
    """Make reinforcement learning rows (critic_rl.jsonl) for the tiny critic from pages of a generator."""
    from ...backend.models.generators import open_generator
    from ..tinyworld.data.critic_rows import make_rl

    opened = open_generator(f"tinyworld:{generator}" if generator else "tinyworld")
    typer.echo(f"data: {make_rl(out, opened.pipeline, rows, seed, opened.identity)}")  # type: ignore[attr-defined]
