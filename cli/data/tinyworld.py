"""`data tinyworld-...`: prompts and rows of the tiny world, to try every stage on two cores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def prompts(
    *,
    out: Annotated[Path, typer.Option(help="Folder for prompts.jsonl and the pages of its requests.")],
    rows: Annotated[int, typer.Option(min=1, max=1_000_000, help="Requests, all of them different.")] = 400,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the requests.")] = 0,
    split: Annotated[
        Literal["train", "evaluate"], typer.Option(help="Those that are trained on, or those that are asked.")
    ] = "train",
) -> None:
    """Make prompts that the tiny world's planner understands."""
    from ...tinyworld.lab.data.prompt_rows import make_prompts

    typer.echo(f"prompts: {make_prompts(out, rows, seed, split)}")


def planner(
    *,
    out: Annotated[Path, typer.Option(help="Folder for planner_sft.json and the pages of its requests.")],
    rows: Annotated[int, typer.Option(min=1, max=1_000_000, help="Requests with their plans.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the requests.")] = 0,
) -> None:
    """Make rows of the kind that the tiny world's planner learned from."""
    from ...tinyworld.lab.data.planner_rows import make
    from ...training.data.rows.sft import write_rows

    write_rows(out / "planner_sft.json", make(out, rows, seed))
    typer.echo(f"data: {out / 'planner_sft.json'}")
