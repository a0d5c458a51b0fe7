"""Reads and checks fine-tuning rows (`{"messages", "images"}`, docs/reference/file-formats.md).

Every row is checked before a model is loaded, and problems are reported with place, field and reason. One bad
row of a hundred thousand must neither stop a training after an hour nor disappear silently.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ....backend.answers.reading import read_verdict
from ....backend.errors import AnswerError, PictureError, SettingsError
from ....backend.feedback.sft_row import MARK, SftMessage, SftRow
from ....backend.files.atomic import write_text
from ....backend.files.image_places import ImagePlaces
from ....backend.pictures import Picture
from .row_kinds import SFT, refuse_other_kind
from .values import RowProblem, read_values

MAX_PROBLEMS = 10_000
SHOWN_PROBLEMS = 20
RARE = 0.3
"""Share of the rarer verdict below which there is a warning."""

__all__ = [
    "MARK",
    "RowProblem",
    "SftMessage",
    "SftRow",
    "check_rows",
    "read_rows",
    "show_balance",
    "show_problems",
    "verdict_balance",
    "write_rows",
]


def read_rows(path: Path) -> list[SftRow]:
    """Read a data file that was created by this package; images must exist, but are not opened.

    Raises:
        SettingsError: A row is invalid; it names the row, the field and the reason.
    """
    rows: list[SftRow] = []
    for row in _parsed(path):
        problem = row if isinstance(row, RowProblem) else _missing_image(row, path.parent)
        if problem is not None:
            raise SettingsError(f"{path.name}, {problem}", "Fix the row, or create the file again.")
        assert isinstance(row, SftRow)
        rows.append(row)
    return rows


def check_rows(
    path: Path, skip_bad: bool = False, images: Path | None = None
) -> tuple[list[SftRow], list[RowProblem]]:
    """Read a data file, and open every image, next to it or in `images`.

    Returns:
        (valid rows, problems of the other rows).

    Raises:
        SettingsError: A row is invalid and `skip_bad` is false, or no row is valid.
    """
    parsed = list(_parsed(path))
    names = sorted({name for row in parsed if isinstance(row, SftRow) for name in row.images})
    found, damaged = find_images(names, path.parent, images)
    rows: list[SftRow] = []
    problems: list[RowProblem] = []
    for row in parsed:
        problem = row if isinstance(row, RowProblem) else None
        if isinstance(row, SftRow):
            bad = next((name for name in row.images if name in damaged), None)
            if bad is None:
                row.images = [found[name] for name in row.images]
                rows.append(row)
                continue
            problem = RowProblem(row.place, "images", damaged[bad])
        assert problem is not None
        if not skip_bad:
            raise SettingsError(
                f"{path.name}, {problem}", "Fix the row, or leave out such rows with --skip-bad."
            )
        problems.append(problem)
    if not rows:
        raise SettingsError(
            f"Data file {str(path)!r} does not contain a usable row.",
            "Fix its rows; see docs/reference/file-formats.md.",
        )
    return rows, problems


def find_images(
    names: Sequence[str], folder: Path, root: Path | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Find the images that rows name, and decode each of them once.

    Nothing outside of `folder`, the data file's folder, and `root` is opened, since data files come from
    others.

    Returns:
        (paths by name, reasons by name of unreadable images). The path is the name itself if the image is in
        `folder`, and absolute if it was found in `root` by the end of its path.

    Raises:
        SettingsError: `root` does not exist.
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
            where = "the data file's folder" if root is None else f"the data file's folder and {str(root)!r}"
            damaged[name] = f"{name!r} was not found in {where} (set another image folder with --images)"
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
    """Return whether the image of a row is outside of `folder`: by `..`, an absolute path or a link.

    Data files come from others and must not name files elsewhere on this machine.
    """
    try:
        return not (folder / name).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):
        return True


def show_problems(problems: Sequence[RowProblem], good: int, log: Callable[[str], None]) -> None:
    """Log how many rows were left out, and the first problems."""
    if not problems:
        return
    log(f"left out {len(problems)} of {good + len(problems)} rows:")
    for problem in problems[:SHOWN_PROBLEMS]:
        log(f"  {problem}")
    if len(problems) > SHOWN_PROBLEMS:
        log(f"  ... and {len(problems) - SHOWN_PROBLEMS} more")


def verdict_balance(rows: Iterable[SftRow]) -> tuple[int, int, int]:
    """Return (answers that accept, answers that reject, answers without a readable verdict)."""
    counts = {True: 0, False: 0, None: 0}
    for row in rows:
        try:
            counts[read_verdict(row.messages[-1].content).success] += 1
        except AnswerError:
            counts[None] += 1
    return counts[True], counts[False], counts[None]


def show_balance(rows: Sequence[SftRow], log: Callable[[str], None]) -> None:
    """Log the balance of the verdicts, and warn if a critic would learn to always give the same."""
    right, wrong, unread = verdict_balance(rows)
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


def _parsed(path: Path) -> Iterator[SftRow | RowProblem]:
    """Yield the rows of a file, each parsed or with its problem.

    Raises:
        SettingsError: The file has no rows, rows of another kind, or more than MAX_PROBLEMS problems.
    """
    bad = rows = 0
    for place, item in read_values(path):
        if not rows:
            refuse_other_kind(path, item, SFT)
        rows += 1
        row = item if isinstance(item, RowProblem) else _row(place, item)
        if isinstance(row, RowProblem):
            bad += 1
            if bad > MAX_PROBLEMS:
                raise SettingsError(
                    f"{path.name}: more than {MAX_PROBLEMS} rows cannot be used; the last one: {row}",
                    "Check that this is the right file.",
                )
        yield row
    if not rows:
        raise SettingsError(
            f"Data file {str(path)!r} does not contain any rows.", "See docs/reference/file-formats.md."
        )


def _row(place: str, item: Any) -> SftRow | RowProblem:
    try:
        row = SftRow.model_validate(item).at(place)
    except ValidationError as error:
        return RowProblem.of(place, error)
    if row.messages[-1].content.strip():
        return row
    return RowProblem(place, "messages", "the answer is empty")


def _missing_image(row: SftRow, folder: Path) -> RowProblem | None:
    out = next((name for name in row.images if leads_out(name, folder)), None)
    if out is not None:
        return RowProblem(row.place, "images", f"{out!r} is outside of the data file's folder")
    missing = next((name for name in row.images if not (folder / name).is_file()), None)
    return None if missing is None else RowProblem(row.place, "images", f"{missing!r} does not exist")


def write_rows(path: Path, rows: Iterable[SftRow]) -> None:
    """Write a data file.

    Raises:
        SettingsError: The file cannot be written.
    """
    text = json.dumps([row.written() for row in rows], ensure_ascii=False)
    write_text(path, text, SettingsError, "Data file")
