"""`data feedback`: a person's annotation of one try of a run, from the command line, into the file that the
nodes and the page write."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError


def command(
    *,
    run: Annotated[Path, typer.Argument(help="The --out folder of a run.", exists=True, file_okay=False)],
    step: Annotated[int, typer.Option(min=1, help="Number of the step in the plan.")],
    attempt: Annotated[int, typer.Option(min=1, help="Which try of the step, from 1.")],
    accept: Annotated[bool, typer.Option("--accept", help="The image is right.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="The image is wrong.")] = False,
    better: Annotated[
        str, typer.Option(help="The prompt that should have been drawn with; rejects the image.")
    ] = "",
    note: Annotated[str, typer.Option(help="Why; the critic learns it as its reasoning.")] = "",
    take_back: Annotated[
        bool, typer.Option("--take-back", help="Take the annotation of this try back.")
    ] = False,
) -> None:
    """Annotate one try of a run: whether its image is right; the last annotation counts (feedback.jsonl in
    the run's folder)."""
    from pydantic import ValidationError

    from ...backend.feedback.log import FEEDBACK, Feedback, record_feedback
    from ...backend.journal.files import first_fault

    better, note = better.strip(), note.strip()
    given = [accept, reject or bool(better), take_back]
    if sum(given) != 1:
        raise SettingsError(
            "Give one annotation.",
            "Give --accept, --reject (with --better PROMPT, if you know one) or --take-back.",
        )
    if take_back and note:
        raise SettingsError("An annotation that is taken back has no note.", "Leave --note out.")
    try:
        annotation = Feedback(
            step=step,
            attempt=attempt - 1,
            accepted=None if take_back else accept,
            better_prompt=better or None,
            note=note or None,
        )
    except ValidationError as error:
        raise SettingsError(f"This cannot be feedback{first_fault(error)}") from error
    record_feedback(run, annotation)
    typer.echo(f"written to {run / FEEDBACK}")
