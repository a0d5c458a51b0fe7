"""Determines from a file's rows which `train` command uses it.

A file that is given to the wrong command is refused as a whole, with the command that uses it. Checked row by
row, it would either lack a field, which does not name the mistake, or be trained on silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from ....backend.answers.reading import read_plan, read_verdict
from ....backend.errors import AnswerError, SettingsError
from ....backend.feedback.sft_row import SftRow

SFT = "planner-sft or critic-sft"
Role = Literal["planner", "critic"]


def kind_of(row: Any) -> str:
    """Return the `train` command for a row as stored in its file, or "" if it cannot be determined."""
    if not isinstance(row, dict):
        return ""
    if "edited_image_path" in row:
        return "critic-grpo"
    if "request" in row and ("checklist" in row or "reference" in row):
        return "planner-grpo"
    return SFT if "messages" in row or "conversations" in row else ""


def refuse_other_kind(path: Path, first: Any, wanted: str) -> None:
    """Raise SettingsError if the first row of a file is for another command."""
    found = kind_of(first)
    if found and found != wanted:
        raise _other(path, found, wanted)


def role_of(answer: str) -> Role | None:
    """Return the agent that gives such an answer: the planner a plan, the critic a verdict.

    None if the text is neither or both.
    """
    is_plan, is_verdict = _reads(read_plan, answer), _reads(read_verdict, answer)
    if is_plan == is_verdict:
        return None
    return "planner" if is_plan else "critic"


def _reads(read: Callable[[str], object], answer: str) -> bool:
    try:
        read(answer)
    except AnswerError:
        return False
    return True


def refuse_other_role(path: Path, rows: Iterable[SftRow], wanted: Role) -> None:
    """Raise SettingsError if the rows have answers of the other agent and none of the requested one."""
    other = False
    for row in rows:
        found = role_of(row.messages[-1].content)
        if found == wanted:
            return
        other = other or found is not None
    if other:
        role = "critic" if wanted == "planner" else "planner"
        raise _other(path, f"{role}-sft", f"{wanted}-sft")


def _other(path: Path, found: str, wanted: str) -> SettingsError:
    return SettingsError(
        f"The rows of {str(path)!r} are for train {found}, not for train {wanted}.",
        f"Run `interleave-thinker train {found} --data {path}`.",
    )
