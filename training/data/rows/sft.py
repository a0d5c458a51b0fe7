"""Reads and checks the SFT data files (rows `{"messages", "images"}`, FORMATS: data files) before anything is
loaded.

Decision: every row is looked at by itself, and what is wrong is reported with its place, field and reason:
one bad row of a hundred thousand must neither stop a training an hour in nor vanish silently.
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
"""Share of the rarer verdict below which the balance is warned about (FORMATS: data files wants them
balanced)."""

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
    """Read a data file; raises SettingsError that names the first bad row, the field and the reason.

    Images have to be there, but are not opened: for files that were made by this package.
    """
    rows: list[SftRow] = []
    for row in _parsed(path):
        problem = row if isinstance(row, RowProblem) else _missing_image(row, path.parent)
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
            raise SettingsError(f"{path.name}, {problem}", "Mend it, or leave such rows out: --skip-bad.")
        problems.append(problem)
    if not rows:
        raise SettingsError(
            f"Data file {str(path)!r} holds no row that can be used.", "See docs/reference/file-formats.md."
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
            f"WARNING: only {rarer:.0%} of the verdicts differ from {more}; "
            f"a critic trained so tends to say always {more}."
        )


def _parsed(path: Path) -> Iterator[SftRow | RowProblem]:
    """The rows of a file, each parsed or with its fault. Raises SettingsError for a file without rows, rows
    of another kind, and more than MAX_PROBLEMS faults."""
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
                    f"{path.name}: more than {MAX_PROBLEMS} rows cannot be used; the last seen: {row}"
                )
        yield row
    if not rows:
        raise SettingsError(f"Data file {str(path)!r} must hold rows.", "See docs/reference/file-formats.md.")


def _row(place: str, item: Any) -> SftRow | RowProblem:
    try:
        row = SftRow.model_validate(item).at(place)
    except ValidationError as error:
        return RowProblem.of(place, error)
    if row.messages[-1].content.strip():
        return row
    return RowProblem(place, "messages", "the answer to learn is empty")


def _missing_image(row: SftRow, folder: Path) -> RowProblem | None:
    out = next((name for name in row.images if leads_out(name, folder)), None)
    if out is not None:
        return RowProblem(row.place, "images", f"{out!r} does not lie below the folder of its file")
    missing = next((name for name in row.images if not (folder / name).is_file()), None)
    return None if missing is None else RowProblem(row.place, "images", f"{missing!r} does not exist")


def write_rows(path: Path, rows: Iterable[SftRow]) -> None:
    """Write a data file, whole or not at all; raises SettingsError if it cannot be written."""
    text = json.dumps([row.written() for row in rows], ensure_ascii=False)
    write_text(path, text, SettingsError, "Data file")
