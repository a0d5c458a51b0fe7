"""Finds out from the rows of a file which `train` command takes it.

A file that is given to the wrong command is refused as a whole, with the command that takes it. Checked row
by row, it would either lack a field, which does not name the mistake, or be trained on silently.
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
    """The `train` command that takes a row as it is in its file; "" where that cannot be told."""
    if not isinstance(row, dict):
        return ""
    if "edited_image_path" in row:
        return "critic-grpo"
    if "chosen" in row or "rejected" in row:
        role = "critic" if "truth" in row else role_of(str(row.get("chosen")))
        return f"{role}-dpo" if role else ""
    if "request" in row and ("checklist" in row or "reference" in row):
        return "planner-grpo"
    return SFT if "messages" in row or "conversations" in row else ""


def refuse_other_kind(path: Path, first: Any, wanted: str) -> None:
    """Raise SettingsError if the first row of a file is of a kind that another command takes."""
    found = kind_of(first)
    if found and found != wanted:
        raise _other(path, found, wanted)


def role_of(answer: str) -> Role | None:
    """Return the role that gives such an answer: the planner a plan, the critic a verdict. None if the text
    is neither or both."""
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
    """Raise SettingsError if answers of the other role are in the rows of a file and none of the wanted
    one."""
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
        f"Run: interleave-thinker train {found} --data {path}",
    )
