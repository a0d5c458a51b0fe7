"""`interleave-thinker redraw` and `approve`: decisions about the steps of a run, also asked on a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ...backend.core.errors import SettingsError
from ...backend.pipeline.prepared import read_text
from ...backend.story.journal.waiting import Waiting
from ..shared_options import RunFolder

PROMPT = "Prompt (empty: the step's own)"


def redraw(
    *,
    run: RunFolder,
    step: Annotated[int, typer.Option(min=1, help="Number of the step in the plan.")],
    prompt: Annotated[str, typer.Option(help="Prompt for the image. Default: the prompt of the step.")] = "",
) -> None:
    """Request one more attempt at a step, with a new seed.

    The request is stored in choices.json in the run folder. A run that is at this step generates the image
    next. Otherwise run the same command again: it generates the image and the later steps that depend on it.
    The new image becomes the step's result, and the critic's verdict on it is recorded.
    """
    from ...backend.story.journal.choices import CHOICES, ask_redraw

    ask_redraw(run, step, read_text("--prompt", prompt) if prompt.strip() else None)
    typer.echo(f"Saved to {run / CHOICES}. Run the same command again to generate the image.")


def approve(
    *,
    run: RunFolder,
    step: Annotated[
        int | None, typer.Option(min=1, help="Number of the step. Default: what the run waits for.")
    ] = None,
    redraw: Annotated[
        str | None,
        typer.Option(help="Generate one more attempt with this prompt. Empty: with the step's own prompt."),
    ] = None,
    use: Annotated[int | None, typer.Option(min=1, help="Use this attempt (counted from 1) instead.")] = None,
    skip: Annotated[bool, typer.Option("--skip", help="Skip the step: it has no image.")] = False,
) -> None:
    """Approve the plan or the image that a paused run waits for, or decide otherwise.

    The decision is stored in choices.json in the run folder. Run the same command again to continue. To
    change the rest of the plan, edit plan.json before that. Only the present image or plan is approved: if it
    changes, the run waits again.
    """
    from ...backend.story.approval import approve

    prompt = read_text("--redraw", redraw) if redraw and redraw.strip() else redraw
    decision = approve(run, step, redraw=prompt, use=use, skip=skip)
    typer.echo(f"{decision} Run the same command again to continue.")


def is_interactive() -> bool:
    """Return whether the command reads from and writes to a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask(run: Path, waiting: Waiting) -> bool:
    """Ask the user on the terminal what to do about a pause, and store the decision.

    Returns:
        Whether to continue the run.

    Raises:
        JournalError: A file of the run is damaged.
    """
    from ...backend.story.approval import approve

    choices = ["a"] if waiting.digest else []
    choices += [] if waiting.step is None else ["r", "u", "s"]
    names = {
        "a": "approve",
        "r": "redraw with a prompt",
        "u": "use another attempt",
        "s": "skip the step",
        "c": "continue after an edit of plan.json",
        "q": "quit",
    }
    question = ", ".join(f"[{key}] {names[key]}" for key in (*choices, "c", "q"))
    while True:
        try:
            answer = typer.prompt(question, default="a" if waiting.digest else "c").strip().lower()[:1]
            if answer in ("c", "q"):
                return answer == "c"
            if answer not in choices:
                continue
            if answer == "r":
                decision = approve(run, redraw=typer.prompt(PROMPT, default="", show_default=False))
            elif answer == "u":
                decision = approve(run, use=typer.prompt("Attempt", type=int))
            else:
                decision = approve(run, skip=answer == "s")
        except typer.Abort:
            return False
        except SettingsError as error:
            typer.secho(str(error), fg="red", err=True)
            continue
        typer.echo(decision)
        return True
