"""The user's decision at a pause of a run: approve, generate again, use another attempt, or skip the step.

Every decision is data in the run folder (journal/choices.py), so the command line, a program and the nodes
decide in the same way. The next run in the folder continues from there.
"""

from __future__ import annotations

from pathlib import Path

from ..core.errors import SettingsError
from .journal.choices import approve_plan, ask_redraw, pick, read_choices, skip_step
from .journal.journal import Journal
from .journal.waiting import Waiting, waiting_for
from .loop.replay import load_trajectory


def approve(
    folder: str | Path,
    step: int | None = None,
    *,
    redraw: str | None = None,
    use: int | None = None,
    skip: bool = False,
) -> str:
    """Decide about a step of a run, or approve its plan. Without other arguments approve its image.

    Only the image or the plan as it is now is approved: if it is generated again, the run waits again. Of
    several decisions at the same time one is stored, and the others raise an error.

    Args:
        folder: The run folder.
        step: Number of the step. Default: what the run waits for.
        redraw: Generate one more attempt with this prompt. With an empty text: with the step's own prompt and
            another seed.
        use: Use this attempt, counted from 1.
        skip: Skip the step: it has no image, and later steps edit the image before it.

    Returns:
        The decision as a sentence.

    Raises:
        SettingsError: Several decisions are given, the run does not wait for one, the step or attempt has no
            image, or another decision was stored first.
        JournalError: The folder does not contain a run, a file is damaged, or the plan does not have the
            step.
    """
    decisions = [redraw is not None, use is not None, skip]
    if sum(decisions) > 1:
        raise SettingsError("Only one of redraw, use and skip is possible.", "Remove the others.")
    known = read_choices(folder).digest
    waiting = waiting_for(folder)
    if step is None:
        if waiting is None:
            Journal(folder).record()
            raise SettingsError(
                f"The run in {str(folder)!r} does not wait for a decision: it has one, or did not pause.",
                "Run the same command again, or name a step.",
            )
        if waiting.step is None:
            return _approve_plan(folder, waiting, any(decisions), known)
        step = waiting.step
    if skip:
        skip_step(folder, step, known)
        return f"Step {step} is skipped."
    if redraw is not None:
        ask_redraw(folder, step, redraw, known=known)
        return f"One more attempt at step {step} is requested."
    if use is None and waiting is not None and waiting.step == step and waiting.digest is not None:
        image = waiting.digest
    else:
        image = _image_of(folder, step, use)
    pick(folder, step, image, known)
    return f"Step {step} is approved." if use is None else f"Attempt {use} of step {step} is used."


def _approve_plan(folder: str | Path, waiting: Waiting, otherwise: bool, known: str) -> str:
    if otherwise or waiting.digest is None:
        raise SettingsError(
            f"The run in {str(folder)!r} waits for the approval of its plan.",
            "Approve it, or edit plan.json and run the same command again.",
        )
    approve_plan(folder, waiting.digest, known)
    return "The plan is approved."


def _image_of(folder: str | Path, step: int, attempt: int | None) -> str:
    """Return the digest of a step's image, or of that of an attempt (counted from 1)."""
    result = next((one for one in load_trajectory(folder).results if one.step.number == step), None)
    attempts = result.attempts if result else ()
    index = attempt - 1 if attempt is not None else result.chosen if result else None
    image = attempts[index].image if index is not None and 0 <= index < len(attempts) else None
    if image is None:
        what = f"Step {step}" if attempt is None else f"Attempt {attempt} of step {step}"
        raise SettingsError(
            f"{what} of the run in {str(folder)!r} has no image.",
            "Choose another attempt, skip the step, or run the same command again to generate it.",
        )
    return image.digest
