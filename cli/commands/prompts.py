"""`interleave-thinker prompts`: stores the prompt set that a checkpoint was or will be trained with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.prompts.agent_card import Role
from ...backend.prompts.importer import import_beside, store_beside
from ...backend.prompts.prompt_set import named_prompt_set

app = typer.Typer(
    no_args_is_help=True,
    help="Store a prompt set with a checkpoint: the one it was trained with, or the one for its training.",
)


@app.callback()
def group() -> None:
    """Store a prompt set with a checkpoint: the one it was trained with, or the one for its training."""


@app.command("import")
def import_prompts(
    path: Annotated[
        Path, typer.Argument(help="Your checkout of the official repository. Its code is read, not executed.")
    ],
    to: Annotated[Path, typer.Option("--to", help="Folder of the checkpoint.")],
    role: Annotated[
        Role | None,
        typer.Option(
            help="Job that the checkpoint was trained for; the other job is then refused. Default: recognized"
            " for the published checkpoints, otherwise left open."
        ),
    ] = None,
) -> None:
    """Import the official prompts for a published checkpoint.

    The prompt set and an agent card are stored with the checkpoint and used whenever it plans or judges.
    """
    print(import_beside(path, to, role))


@app.command("use")
def use_prompts(
    name: Annotated[
        str,
        typer.Argument(
            help="default, verdict-first (the critic gives its verdict before its reasoning, which makes an "
            "accepted "
            "image cheap) or short (the critic reasons in one sentence)."
        ),
    ],
    to: Annotated[Path, typer.Option("--to", help="Folder of the checkpoint.")],
) -> None:
    """Store a built-in prompt set with a checkpoint before training it.

    Training data for this checkpoint is then made with this prompt set, and so are its requests later.
    """
    prompt_set = named_prompt_set(name)
    store_beside(prompt_set, to)
    print(f"Stored prompt set {prompt_set.digest} in {to}.")
