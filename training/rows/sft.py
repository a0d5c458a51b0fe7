"""Reads and checks the SFT data files (list of `{"messages", "images"}`, FORMATS: data files) before anything
is loaded.

Decision: every row is looked at by itself, and what is wrong is reported with its place, field and reason:
one bad row of a hundred thousand must neither stop a training an hour in nor vanish silently.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...backend.answers.reading import read_verdict
from ...backend.errors import AnswerError, PictureError, SettingsError
from ...backend.feedback.sft_row import MARK, SftMessage, SftRow
from ...backend.files.atomic import write_text
from ...backend.files.bounded_reader import MAX_JSON_VALUES, opened, parse_json, read_bytes
from ...backend.files.image_places import ImagePlaces
from ...backend.pictures import Picture

MAX_FILE = 4 * 1024**3
MAX_LINE = 16 * 1024**2
MAX_ROW_VALUES = 100_000
BYTES_A_VALUE = 16
"""Of the conversations in a data file, at least: a file that is nothing but brackets is a hundred times its
size in memory."""
MAX_PROBLEMS = 10_000
SHOWN_PROBLEMS = 20
RARE = 0.3
"""Share of the rarer verdict below which the balance is warned about (FORMATS: data files wants them
balanced)."""

__all__ = [
    "MARK",
    "RowProblem",
    "SftMessage",
    "SftRow",
    "check_rows",
    "read_lines",
    "read_rows",
    "show_balance",
    "show_problems",
    "verdict_balance",
    "write_rows",
]


@dataclass(frozen=True)
class RowProblem:
    """Why a row cannot be used: its place in the file ("row 3" counts from 0, "line 3" from 1), the field,
    the reason."""

    place: str
    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}, {self.field}: {self.reason.rstrip('.')}."

    @classmethod
    def of(cls, place: str, error: ValidationError) -> RowProblem:
        """The first fault that a model found."""
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "row"
        return cls(place, field, first["msg"].removeprefix("Value error, "))


def read_rows(path: Path) -> list[SftRow]:
    """Read a data file; raises SettingsError that names the first bad row, the field and the reason.

    Images have to be there, but are not opened: for files that were made by this package.
    """
    rows: list[SftRow] = []
    for row in _parsed(path):
        problem = row if isinstance(row, RowProblem) else _missing_image(f"row {len(rows)}", row, path.parent)
        if problem is not None:
            raise SettingsError(f"{path.name}, {problem}")
        assert isinstance(row, SftRow)
        rows.append(row)
    return rows


def check_rows(
    path: Path, skip_bad: bool = False, images: Path | None = None
) -> tuple[list[SftRow], list[RowProblem]]:
    """Read a data file and open every image, beside it or below `images`; returns the good rows and what was
    wrong with the others.

    Raises SettingsError for the first bad row unless `skip_bad`, and for a file without a good row.
    """
    parsed = list(_parsed(path))
    names = sorted({name for row in parsed if isinstance(row, SftRow) for name in row.images})
    found, damaged = find_images(names, path.parent, images)
    rows: list[SftRow] = []
    problems: list[RowProblem] = []
    for number, row in enumerate(parsed):
        problem = row if isinstance(row, RowProblem) else None
        if isinstance(row, SftRow):
            bad = next((name for name in row.images if name in damaged), None)
            if bad is None:
                row.images = [found[name] for name in row.images]
                rows.append(row)
                continue
            problem = RowProblem(f"row {number}", "images", damaged[bad])
        assert problem is not None
        if not skip_bad:
            raise SettingsError(f"{path.name}, {problem}", "Mend it, or leave such rows out: --skip-bad.")
        problems.append(problem)
    if not rows:
        raise SettingsError(
            f"Data file {str(path)!r} holds no row that can be used.", "See docs/training.md."
        )
    return rows, problems


def find_images(
    names: Sequence[str], folder: Path, root: Path | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Where the images that rows name lie, and why some cannot be read (missing, truncated...); all are
    decoded once.

    The first is the name itself for one below `folder`, the folder of the file, and an absolute path for one
    that is found by the end of its path below `root`. Nothing elsewhere is opened: a data file is a
    stranger's. Raises SettingsError if there is no such root.
    """
    places = ImagePlaces(folder, SettingsError, root)
    found: dict[str, str] = {}
    damaged: dict[str, str] = {}
    for name in names:
        try:
            file = places.find(name)
        except SettingsError as error:
            damaged[name] = str(error)
            continue
        if file is None:
            where = "of its file" if root is None else f"of its file nor below {str(root)!r}"
            damaged[name] = f"there is no {name!r} below the folder {where} (another image folder: --images)"
        else:
            own = not leads_out(name, folder) and (folder / name).exists()
            found[name] = name if own else str(file)

    def reason(name: str) -> str | None:
        try:
            Picture.open(folder / found[name])
        except PictureError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(min(32, os.cpu_count() or 1)) as pool:
        reasons = zip(found, pool.map(reason, found), strict=True)
        damaged |= {name: why for name, why in reasons if why is not None}
    return found, damaged


def leads_out(name: str, folder: Path) -> bool:
    """Whether the image of a row lies elsewhere than below `folder`: by `..`, an absolute path or a link. A
    data file is a stranger's: it names none of the machine's other files."""
    try:
        return not (folder / name).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):
        return True


def show_problems(problems: Sequence[RowProblem], good: int, log: Callable[[str], None]) -> None:
    """Say how many rows were left out, and the first of them one by one."""
    if not problems:
        return
    log(f"left out {len(problems)} of {good + len(problems)} rows:")
    for problem in problems[:SHOWN_PROBLEMS]:
        log(f"  {problem}")
    if len(problems) > SHOWN_PROBLEMS:
        log(f"  ... and {len(problems) - SHOWN_PROBLEMS} more")


def verdict_balance(rows: Iterable[SftRow]) -> tuple[int, int, int]:
    """How many answers say True, how many False, and how many hold no verdict that can be read."""
    counts = {True: 0, False: 0, None: 0}
    for row in rows:
        try:
            counts[read_verdict(row.messages[-1].content).success] += 1
        except AnswerError:
            counts[None] += 1
    return counts[True], counts[False], counts[None]


def show_balance(rows: Sequence[SftRow], log: Callable[[str], None]) -> None:
    """Say how verdicts are balanced, with a warning where a critic would learn to say always the same."""
    right, wrong, unread = verdict_balance(rows)
    log(f"verdicts: {right} True, {wrong} False" + (f", {unread} answers without one" if unread else ""))
    if not right + wrong:
        log("WARNING: no answer holds a verdict: these are not a critic's rows.")
        return
    rarer = min(right, wrong) / (right + wrong)
    if rarer < RARE:
        more = "True" if right > wrong else "False"
        log(
            f"WARNING: only {rarer:.0%} of the verdicts differ from {more}; a critic trained so tends to "
            f"say always {more}."
        )


def read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """("line N", value or RowProblem) for every line of a JSONL file that is not blank; raises
    SettingsError."""
    with opened(path, SettingsError, "Data file") as file:
        if os.fstat(file.fileno()).st_size > MAX_FILE:
            raise SettingsError(f"Data file {str(path)!r} is larger than {MAX_FILE} bytes.")
        number = 0
        while line := file.readline(MAX_LINE + 1):
            number += 1
            place = f"line {number}"
            if len(line) > MAX_LINE:
                raise SettingsError(f"{path.name}, {place}: longer than {MAX_LINE} bytes.")
            if not line.strip():
                continue
            try:
                yield place, parse_json(line, SettingsError, "it", MAX_ROW_VALUES)
            except SettingsError as error:
                yield place, RowProblem(place, "row", error.message)


def _parsed(path: Path) -> Iterator[SftRow | RowProblem]:
    content = read_bytes(path, MAX_FILE, SettingsError, "Data file")
    values = max(MAX_JSON_VALUES, len(content) // BYTES_A_VALUE)
    content = parse_json(content, SettingsError, f"Data file {str(path)!r}", values)
    if not isinstance(content, list) or not content:
        raise SettingsError(f"Data file {str(path)!r} must hold a list of rows.", "See docs/training.md.")
    bad = 0
    for number, item in enumerate(content):
        try:
            row = SftRow.model_validate(item).at(f"row {number}")
        except ValidationError as error:
            problem = RowProblem.of(f"row {number}", error)
            bad += 1
            if bad > MAX_PROBLEMS:
                raise SettingsError(
                    f"{path.name}: more than {MAX_PROBLEMS} rows cannot be used; the last seen: {problem}"
                ) from error
            yield problem
            continue
        if row.messages[-1].content.strip():
            yield row
        else:
            yield RowProblem(row.place, "messages", "the answer to learn is empty")


def _missing_image(place: str, row: SftRow, folder: Path) -> RowProblem | None:
    out = next((name for name in row.images if leads_out(name, folder)), None)
    if out is not None:
        return RowProblem(place, "images", f"{out!r} does not lie below the folder of its file")
    missing = next((name for name in row.images if not (folder / name).is_file()), None)
    return None if missing is None else RowProblem(place, "images", f"{missing!r} does not exist")


def write_rows(path: Path, rows: Iterable[SftRow]) -> None:
    """Write a data file, whole or not at all; raises SettingsError if it cannot be written."""
    text = json.dumps([row.written() for row in rows], ensure_ascii=False)
    write_text(path, text, SettingsError, "Data file")
