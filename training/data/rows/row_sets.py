"""Rows with the folder that their image paths are relative to, and comparison of their questions by content.

Two rows have the same question if texts and pixels are equal, regardless of file names. Data that is
created again or merged contains the same images under other names, and a critic must not be tested on rows it
was trained on.
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
        """Return the same rows with paths relative to another folder."""
        names = {
            name: os.path.relpath((self.folder / name).resolve(), folder.resolve())
            for row in self.rows
            for name in row.images
        }
        rows = [row.model_copy(update={"images": [names[name] for name in row.images]}) for row in self.rows]
        return RowSet(rows, folder)

    def questions(self, texts: Collection[str] | None = None) -> list[str]:
        """Return a digest of each row's question (text and pixels).

        With `texts`, rows whose text is not in it get "" and their images are not opened.
        """
        digests: dict[str, str] = {}
        found = []
        for row in self.rows:
            text = question_text(row)
            if texts is not None and text not in texts:
                found.append("")
                continue
            for name in row.images:
                if name not in digests:
                    digests[name] = Picture.open(self.folder / name).digest
            parts = "\0".join([text, *(digests[name] for name in row.images)])
            found.append(hashlib.blake2b(parts.encode(), digest_size=16).hexdigest())
        return found


def question_text(row: SftRow) -> str:
    """Return the text of a row's question."""
    return "\0".join(f"{turn.role}:{turn.content}" for turn in row.messages[:-1])


def read_row_set(path: Path, role: Role, skip_bad: bool, log: Log, images: Path | None = None) -> RowSet:
    """Read and check the rows of a data file for an agent of this role.

    Images are next to the file or in `images`.

    Raises:
        SettingsError: The file or one of its rows cannot be used.
    """
    rows, problems = check_rows(path, skip_bad, images)
    show_problems(problems, len(rows), log)
    refuse_other_role(path, rows, role)
    return RowSet(rows, path.parent)


def asked_in_both(one: RowSet, other: RowSet) -> list[int]:
    """Return the indices of the rows of `one` whose question is also in `other`."""
    both = {question_text(row) for row in one.rows} & {question_text(row) for row in other.rows}
    there = set(other.questions(both)) - {""}
    return [number for number, asked in enumerate(one.questions(both)) if asked in there]
