"""`data planner-rl` and `data tinyworld-planner-rl`: requests with what their plans are judged by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ...backend.shown_text import shown_text


def command(
    *,
    prompts: Annotated[
        Path, typer.Argument(help='Requests as JSONL: {"id", "user_input", "user_input_image"?} per line.')
    ],
    out: Annotated[
        Path, typer.Option(help="Output folder for planner_rl.jsonl, its images and report.json.")
    ],
    teacher: Annotated[
        str,
        typer.Option(
            help="Chat model that writes the checklist of each request, such as openai:MODEL@URL. "
            "Its answers are cached next to --out."
        ),
    ],
    images: Annotated[
        Path | None, typer.Option(help="Second folder in which to look for the images of the requests.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Use at most this many requests.")] = None,
    parallel: Annotated[int, typer.Option(min=1, max=256, help="Questions at the same time.")] = 8,
    guard: Annotated[
        Path | None, typer.Option(help="Benchmark index (`data guard`). Matching requests are left out.")
    ] = None,
) -> None:
    """Make rows for planner-grpo: a chat model writes a checklist for every request.

    Run the same command again to resume.
    """
    from ...backend.chat import open_chat
    from ...training.data.planner_rl.make import RL_FILE, PromptSelection, make_planner_rl

    source = PromptSelection(prompts, images, guard, limit)
    make_planner_rl(source, open_chat(teacher), out, parallel, lambda line: typer.echo(shown_text(line)))
    typer.echo(f"data: {shown_text(str(out / RL_FILE))}")


def tinyworld(
    *,
    out: Annotated[
        Path, typer.Option(help="Output folder for planner_rl.jsonl and the pages of its requests.")
    ],
    rows: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of requests, all different.")] = 500,
    least: Annotated[int, typer.Option(min=1, max=20, help="Least number of steps of a story.")] = 1,
    most: Annotated[int, typer.Option(min=1, max=20, help="Greatest number of steps of a story.")] = 6,
    wording: Annotated[
        Literal["usual", "other", "unseen"],
        typer.Option(
            help="Phrases that the built-in planner was trained on (usual), or one of two other sets."
        ),
    ] = "usual",
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the requests.")] = 0,
    split: Annotated[
        Literal["train", "evaluate"],
        typer.Option(help="Training requests (train) or held-out requests (evaluate)."),
    ] = "train",
) -> None:
    """Make planner-grpo rows of the tiny world: requests with exact plans, which need no judge."""
    from ...tinyworld.lab.data.planner_rl import StoryKind, make_planner_rl

    typer.echo(f"data: {make_planner_rl(out, rows, seed, StoryKind(least, most, wording), split)}")
