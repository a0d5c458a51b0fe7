"""`interleave-thinker redraw`: one more try at a step, asked for as in the node's view."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError


def command(
    *,
    run: Annotated[Path, typer.Argument(help="The --out folder of a run.", exists=True, file_okay=False)],
    step: Annotated[int, typer.Option(min=1, help="Number of the step in the plan.")],
    prompt: Annotated[str, typer.Option(help="What to draw with; empty: the step's own prompt.")] = "",
    attempt: Annotated[
        int, typer.Option("--attempt", min=0, help="Draw with the prompt of this try, from 1, instead.")
    ] = 0,
) -> None:
    """Ask for one more try at a step, with another seed (choices.json in the run's folder).

    A run that is at that step draws it next. Otherwise the same run command again draws it and what depends
    on it. It becomes the step's result; the critic's verdict on it is recorded, too.
    """
    from ...backend.journal.picks import CHOICES
    from ...backend.journal.redraws import ask_redraw

    if prompt.strip() and attempt:
        raise SettingsError("There are two prompts to draw with.", "Give --prompt or --attempt.")
    ask_redraw(run, step, prompt, _picture(run, step, attempt) if attempt else None)
    typer.echo(f"written to {run / CHOICES}; run the same command again to draw it")


def _picture(run: Path, step: int, attempt: int) -> str:
    """Digest of the image of a try, from 1."""
    from ...backend.feedback.log import Feedback
    from ...backend.feedback.rows import find_attempt
    from ...backend.loop.replay import load_trajectory

    return find_attempt(load_trajectory(run), Feedback(step=step, attempt=attempt - 1))[2].digest
