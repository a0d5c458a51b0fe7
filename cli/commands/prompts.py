"""`interleave-thinker prompts`: the wording a checkpoint was trained with, from the user's own copy of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.prompts import named_prompt_set
from ...backend.prompts.importer import import_official, store_beside

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Import the prompt set that a checkpoint was trained with, "
        "or choose the one it is to be trained with."
    ),
)


@app.callback()
def group() -> None:
    """Prompt sets of checkpoints."""


@app.command("import")
def import_prompts(
    path: Annotated[
        Path, typer.Argument(help="Your checkout of the official repository; it is read, not run.")
    ],
    to: Annotated[Path, typer.Option("--to", help="Folder of the checkpoint that gets the prompt set.")],
) -> None:
    """Read the official prompts and store them beside a checkpoint, which is then asked in its own words."""
    prompt_set = import_official(path)
    store_beside(prompt_set, to)
    print(f"Prompt set {prompt_set.digest} is stored beside {to}.")


@app.command("use")
def use_prompts(
    name: Annotated[
        str,
        typer.Argument(
            help="default, verdict-first (the critic answers before it reasons, "
            "so that True costs its answer alone) or short (it reasons in one sentence)."
        ),
    ],
    to: Annotated[Path, typer.Option("--to", help="Folder of the checkpoint that is to be trained with it.")],
) -> None:
    """Store one of the pack's prompt sets beside a checkpoint, before training it: data are then made, and
    asked, in it."""
    prompt_set = named_prompt_set(name)
    store_beside(prompt_set, to)
    print(f"Prompt set {prompt_set.digest} is stored beside {to}.")
