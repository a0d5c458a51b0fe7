"""Rows with the folder that their image paths are relative to, and what they ask, by content.

Decision: two rows ask the same if their texts and their pixels are the same, whatever the files are called:
data that is made again, or merged, has the same pictures under other names, and a critic that is examined on
them is examined on its lesson.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....backend.feedback.sft_row import SftRow
from ....backend.pictures import Picture
from .row_kinds import Role, refuse_other_role
from .sft import check_rows, show_problems

Log = Callable[[str], None]


@dataclass(frozen=True)
class RowSet:
    """Rows of a data file, with image paths relative to one folder."""

    rows: Sequence[SftRow]
    folder: Path

    def moved(self, folder: Path) -> RowSet:
        """The same rows as seen from another folder."""
        names = {
            name: os.path.relpath((self.folder / name).resolve(), folder.resolve())
            for row in self.rows
            for name in row.images
        }
        rows = [row.model_copy(update={"images": [names[name] for name in row.images]}) for row in self.rows]
        return RowSet(rows, folder)

    def questions(self, texts: Collection[str] | None = None) -> list[str]:
        """What each row asks, as a digest of its text and pixels; "" for a row whose text is none of
        `texts`, so that its images stay closed."""
        digests: dict[str, str] = {}
        found = []
        for row in self.rows:
            asked = question_text(row)
            if texts is not None and asked not in texts:
                found.append("")
                continue
            for name in row.images:
                if name not in digests:
                    digests[name] = Picture.open(self.folder / name).digest
            parts = "\0".join([asked, *(digests[name] for name in row.images)])
            found.append(hashlib.blake2b(parts.encode(), digest_size=16).hexdigest())
        return found


def question_text(row: SftRow) -> str:
    """The text of a row's question."""
    return "\0".join(f"{turn.role}:{turn.content}" for turn in row.messages[:-1])


def read_row_set(path: Path, role: Role, skip_bad: bool, log: Log, images: Path | None = None) -> RowSet:
    """The rows of a data file for an agent of that role, all checked, with images beside it or below
    `images`; raises SettingsError."""
    rows, problems = check_rows(path, skip_bad, images)
    show_problems(problems, len(rows), log)
    refuse_other_role(path, rows, role)
    return RowSet(rows, path.parent)


def asked_in_both(one: RowSet, other: RowSet) -> list[int]:
    """Which rows of `one`, by number, ask what a row of `other` asks."""
    both = {question_text(row) for row in one.rows} & {question_text(row) for row in other.rows}
    there = set(other.questions(both)) - {""}
    return [number for number, asked in enumerate(one.questions(both)) if asked in there]
