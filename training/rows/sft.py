"""Fine-tuning rows (`{"messages", "images"}`, docs/reference/file-formats.md): read, write and compare them.

Two rows have the same question if texts and pixels are equal, regardless of file names. Data that is created
again or merged contains the same images under other names, and a critic must not be tested on rows it was
trained on. For trl's trainers a row becomes a prompt, an answer, and images that are opened per batch; trl
computes the loss on the answer only. The literal `<image>` marks become image parts, because trl would
otherwise train on the literal and add marks of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from ...backend.core.answers.reading import read_plan, read_verdict
from ...backend.core.errors import AnswerError, SettingsError
from ...backend.core.files.atomic import write_text
from ...backend.core.pictures import Picture
from ...backend.core.seams.chat_model import Message
from ...backend.output.sft_rows import MARK, SftMessage, SftRow
from .values import SFT, RowProblem, other_kind, parsed_rows, show_problems, usable_rows

if TYPE_CHECKING:
    from datasets import Dataset

RARE = 0.3
"""Share of the rarer verdict below which there is a warning."""
Role = Literal["planner", "critic"]
Log = Callable[[str], None]

__all__ = ["MARK", "RowProblem", "SftMessage", "SftRow", "show_problems"]


def read_rows(path: Path) -> list[SftRow]:
    """Return the rows of a data file, as `check_rows`; all of them must be valid."""
    return check_rows(path)[0]


def check_rows(
    path: Path, skip_bad: bool = False, images: Path | None = None
) -> tuple[list[SftRow], list[RowProblem]]:
    """Read a data file, and open every image, next to it or in `images`.

    Returns:
        (valid rows, problems of the other rows).

    Raises:
        SettingsError: A row is invalid and `skip_bad` is false, or no row is valid.
    """

    def paths_of(row: SftRow) -> dict[str, str]:
        return {f"images.{number}": name for number, name in enumerate(row.images)}

    def with_paths(row: SftRow, paths: Mapping[str, str]) -> SftRow:
        return row.model_copy(update={"images": list(paths.values())})

    return usable_rows(path, parsed_rows(path, _row, SFT), paths_of, with_paths, skip_bad, images)


def write_rows(path: Path, rows: Iterable[SftRow]) -> None:
    """Write a data file.

    Raises:
        SettingsError: The file cannot be written.
    """
    text = json.dumps([row.written() for row in rows], ensure_ascii=False)
    write_text(path, text, SettingsError, "Data file")


def _row(place: str, item: Any) -> SftRow | RowProblem:
    try:
        row = SftRow.model_validate(item).at(place)
    except ValidationError as error:
        return RowProblem.of(place, error)
    if row.messages[-1].content.strip():
        return row
    return RowProblem(place, "messages", "the answer is empty")


def truth_of(row: SftRow) -> bool | None:
    """Return the verdict that a row teaches, or None if it teaches none."""
    try:
        return read_verdict(row.messages[-1].content).success
    except AnswerError:
        return None


def label_counts(rows: Sequence[SftRow]) -> str:
    """Return the number of rows by what they teach, and by kind of edit."""
    counts = Counter({True: "right", False: "wrong", None: "no verdict"}[truth_of(row)] for row in rows)
    counts.update(row.kind for row in rows if row.kind)
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def show_balance(rows: Sequence[SftRow], log: Log) -> None:
    """Log the balance of the verdicts, and warn if a critic would learn to always give the same."""
    truths = [truth_of(row) for row in rows]
    right, wrong, unread = (truths.count(truth) for truth in (True, False, None))
    log(
        f"verdicts: {right} True, {wrong} False" + (f", {unread} answers without a verdict" if unread else "")
    )
    if not right + wrong:
        log("WARNING: none of the answers has a verdict; these are not rows for a critic.")
        return
    rarer = min(right, wrong) / (right + wrong)
    if rarer < RARE:
        more = "True" if right > wrong else "False"
        log(
            f"WARNING: only {rarer:.0%} of the verdicts differ from {more}; a critic trained on them tends "
            f"to always say {more}."
        )


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
    found = {role_of(row.messages[-1].content) for row in rows} - {None}
    if found and wanted not in found:
        raise other_kind(path, f"{found.pop()}-sft", f"{wanted}-sft")


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

    def judging(self, digests: Collection[str]) -> list[int]:
        """Return the indices of the rows that judge an image (their last one) with one of these digests."""
        found = {
            name: Picture.open(self.folder / name).digest
            for name in {r.images[-1] for r in self.rows if r.images}
        }
        return [
            number for number, row in enumerate(self.rows) if row.images and found[row.images[-1]] in digests
        ]


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


def _pieces(text: str) -> list[str]:
    """Return the text in pieces; each mark of an image is a piece."""
    return [piece for piece in re.split(f"({re.escape(MARK)})", text) if piece]


def _parts(text: str) -> list[dict[str, str | None]]:
    return [
        {"type": "image", "text": None} if piece == MARK else {"type": "text", "text": piece}
        for piece in _pieces(text)
    ]


def as_messages(row: SftRow, folder: Path) -> list[Message]:
    """Return the question of a row as an agent is asked, with its images opened."""
    pictures = (Picture.open(folder / name) for name in row.images)

    def part(piece: str) -> str | Picture:
        return next(pictures) if piece == MARK else piece

    turns = row.messages[:-1]
    return [Message(role=turn.role, content=tuple(map(part, _pieces(turn.content)))) for turn in turns]


def as_prompt_completion(row: SftRow, folder: Path) -> dict[str, Any]:
    """Return a row in trl's prompt-completion format, with absolute image paths.

    Parts that must not be learned are passed within the answer, as the trainer passes on no other column.
    """
    turns = [{"role": message.role, "content": _parts(message.content)} for message in row.messages[:-1]]
    answer: dict[str, Any] = {
        "role": "assistant",
        "content": [{"type": "text", "text": row.messages[-1].content}],
    }
    if row.not_learned:
        answer["not_learned"] = [list(part) for part in row.not_learned]
    images = [str((folder / image).resolve()) for image in row.images]
    return {"prompt": turns, "completion": [answer], "images": images}


def as_dataset(rows: Sequence[SftRow], folder: Path) -> Dataset:
    """Return the rows as a `datasets.Dataset` that opens images when a batch needs them."""
    return with_images([as_prompt_completion(row, folder) for row in rows])


def with_images(rows: Sequence[Mapping[str, Any]]) -> Dataset:
    """Return rows in trl's format, with image paths, as a `datasets.Dataset` that opens them per batch.

    Images are opened as by the agents (white background, EXIF orientation applied). The library's own reader
    makes transparent pixels black and fails on some cameras' EXIF data.
    """
    from datasets import Dataset

    return Dataset.from_list([dict(row) for row in rows]).with_transform(_read_images)


def _read_images(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
    if "images" not in batch:
        return batch
    return {**batch, "images": [[Picture.open(path).image for path in paths] for paths in batch["images"]]}
