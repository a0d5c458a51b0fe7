"""`data planner-rl` and `data tinyworld-planner-rl`: requests with what a plan for them is held against."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ...backend.shown_text import shown_text


def command(
    *,
    prompts: Annotated[
        Path, typer.Argument(help='Prompts as JSONL: {"id", "user_input", "user_input_image"?} a line.')
    ],
    out: Annotated[Path, typer.Option(help="Folder for planner_rl.jsonl, its images and report.json.")],
    teacher: Annotated[
        str,
        typer.Option(
            help="Chat model that writes each request's checklist, once, such as openai:MODEL@URL; "
            "its answers are kept beside --out."
        ),
    ],
    images: Annotated[
        Path | None, typer.Option(help="Where the prompts' images are looked for besides their own folder.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Prompts that are taken at most.")] = None,
    parallel: Annotated[int, typer.Option(min=1, max=256, help="Questions at a time.")] = 8,
    guard: Annotated[
        Path | None, typer.Option(help="Index of benchmarks (`data guard`), of which nothing is asked.")
    ] = None,
) -> None:
    """Have a checklist written for every prompt, for planner-grpo; the same command goes on after a stop."""
    from ...backend.chat import open_chat
    from ...training.data.planner_rl.make import RL_FILE, PromptSelection, make_planner_rl

    source = PromptSelection(prompts, images, guard, limit)
    make_planner_rl(source, open_chat(teacher), out, parallel, lambda line: typer.echo(shown_text(line)))
    typer.echo(f"data: {shown_text(str(out / RL_FILE))}")


def tinyworld(
    *,
    out: Annotated[Path, typer.Option(help="Folder for planner_rl.jsonl and the pages of its requests.")],
    rows: Annotated[int, typer.Option(min=1, max=1_000_000, help="Requests, all of them different.")] = 500,
    least: Annotated[int, typer.Option(min=1, max=20, help="Fewest steps of a story.")] = 1,
    most: Annotated[int, typer.Option(min=1, max=20, help="Most steps of a story.")] = 6,
    wording: Annotated[
        Literal["usual", "other", "unseen"],
        typer.Option(help="The words that the shipped planner learned from, or one of two other sets."),
    ] = "usual",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the requests.")] = 0,
    split: Annotated[
        Literal["train", "evaluate"], typer.Option(help="Those that are trained on, or those that are asked.")
    ] = "train",
) -> None:
    """Make rows for the tiny world's planner-grpo: requests with exact plans, no judge needed."""
    from ...tinyworld.lab.planning.rows import StoryKind, make_planner_rl

    typer.echo(f"data: {make_planner_rl(out, rows, seed, StoryKind(least, most, wording), split)}")
