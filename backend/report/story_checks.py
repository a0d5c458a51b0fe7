"""Texts about the findings of story checks, for exports."""

from __future__ import annotations

from ..types import FindingKind, StoryCheck, Trajectory
from .words import Words

FOUND: dict[FindingKind, str] = {
    "identity": "Story check, identity, attempt {number}: {text}",
    "state": "Story check, state, attempt {number}: {text}",
    "order": "Story check, order, attempt {number}: {text}",
    "style": "Story check, style, attempt {number}: {text}",
}
NOT_CHECKED = "The story was not checked: {text}"


def check_line(check: StoryCheck) -> str:
    """Return the result of one story check in a line, without its texts."""
    count = len(check.findings)
    found = "no findings" if not count else f"{count} finding{'s' if count > 1 else ''}"
    return f"Story check: {'failed' if check.warning else found}"


def check_lines(trajectory: Trajectory, words: Words) -> list[tuple[int | None, str]]:
    """Return what the story checks found about images of this run.

    Args:
        trajectory: The run.
        words: Language of the texts.

    Returns:
        Step numbers and texts, oldest first; without a step number for a story that could not be checked.
    """
    attempts = {
        (result.step.number, attempt.image.digest): number
        for result in trajectory.results
        for number, attempt in reversed(list(enumerate(result.attempts, start=1)))
        if attempt.image
    }
    lines: list[tuple[int | None, str]] = []
    for check in trajectory.checks:
        if check.warning:
            lines.append((None, words.say(NOT_CHECKED, text=check.warning)))
        for one in check.findings:
            number = attempts.get((one.step, check.images.get(one.step, "")))
            # Findings about images that are no longer part of the run are out of date.
            if number is not None:
                text = words.say(FOUND[one.kind], number=number, text=one.problem)
                lines.append((one.step, text))
    return list(dict.fromkeys(lines))
