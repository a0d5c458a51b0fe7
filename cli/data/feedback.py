"""`data feedback`: records a user's verdict on one attempt, in the file that nodes and page use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError


def command(
    *,
    run: Annotated[Path, typer.Argument(help="The --out folder of a run.", exists=True, file_okay=False)],
    step: Annotated[int, typer.Option(min=1, help="Number of the step in the plan.")],
    attempt: Annotated[int, typer.Option(min=1, help="Number of the attempt, counted from 1.")],
    accept: Annotated[bool, typer.Option("--accept", help="The image matches its prompt.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="The image does not match its prompt.")] = False,
    better: Annotated[str, typer.Option(help="A better prompt for the image. It rejects the image.")] = "",
    note: Annotated[
        str, typer.Option(help="Reason of the verdict. A critic learns it as its reasoning.")
    ] = "",
    true: Annotated[
        list[str] | None, typer.Option(help="Text of an item of the checklist that is true; repeatable.")
    ] = None,
    false: Annotated[
        list[str] | None,
        typer.Option(help="Text of an item that is not true; repeatable. It rejects the image."),
    ] = None,
    take_back: Annotated[
        bool, typer.Option("--take-back", help="Remove the feedback on this attempt.")
    ] = False,
) -> None:
    """Record your verdict on one attempt of a run, as training data for a critic.

    It is stored in feedback.jsonl in the run folder. If an attempt has several verdicts, the last one counts.
    """
    from pydantic import ValidationError

    from ...backend.feedback.log import FEEDBACK, Feedback, ItemFeedback, record_feedback
    from ...backend.journal.records.run_files import first_fault

    better, note = better.strip(), note.strip()
    given = [accept, reject or bool(better), take_back]
    has_items = bool(true or false)
    if sum(given) > 1 or not (any(given) or has_items):
        raise SettingsError(
            "`data feedback` needs exactly one verdict.",
            "Give --accept, --reject (with --better PROMPT if you know one), --true, --false or --take-back.",
        )
    if take_back and (note or has_items):
        with_it = "--note" if note else "--true and --false"
        raise SettingsError(f"{with_it} cannot be combined with --take-back.", "Remove one of them.")
    try:
        items = tuple(
            ItemFeedback(text=text, true=is_true)
            for texts, is_true in ((true, True), (false, False))
            for text in texts or ()
        )
        annotation = Feedback(
            step=step,
            attempt=attempt - 1,
            accepted=accept if accept or reject or better else None,
            better_prompt=better or None,
            note=note or None,
            items=items or None,
        )
    except ValidationError as error:
        raise SettingsError(f"The feedback is not valid{first_fault(error)}") from error
    record_feedback(run, annotation)
    typer.echo(f"Saved to {run / FEEDBACK}.")
