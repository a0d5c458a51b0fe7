"""`data tinyworld-...`: requests and rows of the tiny world, to try every stage on two CPU cores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def prompts(
    *,
    out: Annotated[Path, typer.Option(help="Output folder for prompts.jsonl and the pages of its requests.")],
    rows: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of requests, all different.")] = 400,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the requests.")] = 0,
    split: Annotated[
        Literal["train", "evaluate"],
        typer.Option(help="Training requests (train) or held-out requests (evaluate)."),
    ] = "train",
) -> None:
    """Make requests that the tiny world's planner understands."""
    from ...tinyworld.lab.data.planner_rows import make_prompts

    typer.echo(f"prompts: {make_prompts(out, rows, seed, split)}")


def planner(
    *,
    out: Annotated[
        Path, typer.Option(help="Output folder for planner_sft.json and the pages of its requests.")
    ],
    rows: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Number of requests with their plans.")
    ] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the requests.")] = 0,
) -> None:
    """Make rows like those that the tiny world's planner was trained on."""
    from ...tinyworld.lab.data.planner_rows import make
    from ...training.data.rows.sft import write_rows

    write_rows(out / "planner_sft.json", make(out, rows, seed))
    typer.echo(f"data: {out / 'planner_sft.json'}")
