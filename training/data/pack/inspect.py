"""Shows the content of row files: a table, and a page of samples.

Nothing is judged: rows that cannot be read are counted and shown like all others.
"""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....backend.answers.reading import read_plan, read_verdict
from ....backend.errors import AnswerError, PictureError, SettingsError
from ....backend.files.atomic import write_text
from ....backend.files.image_places import ImagePlaces
from ....backend.pictures import Picture
from .row_files import IMAGE_FIELDS, RowFile, row_files

THUMB = 224
MAX_TEXT = 4000
STYLE = (
    ":root{color-scheme:light dark}body{font:15px/1.45 system-ui,sans-serif;max-width:1100px;margin:0 auto;"
    "padding:1rem 1.5rem 4rem}section{border-top:1px solid #8886;padding:.6rem 0}h2{font-size:1rem}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#8881;padding:.5rem;margin:.3rem 0}"
    "img{max-width:224px;max-height:224px;margin-right:.6rem}.role{color:#777;margin:.4rem 0 0}"
)

HEAD = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    f"<title>Rows</title><style>{STYLE}</style>"
)


@dataclass
class FileContents:
    """Content of a file."""

    name: str
    rows: int = 0
    bad: int = 0
    images: int = 0
    missing: int = 0
    question: int = 0
    answer: int = 0
    longest: int = 0
    right: int = 0
    wrong: int = 0
    plans: int = 0
    steps: int = 0
    samples: list[tuple[int, Any]] = field(default_factory=list)


def contents_of(file: RowFile, samples: int = 0, images: Path | None = None) -> FileContents:
    """Count the rows of a file, and pick `samples` of them evenly.

    Images are looked for next to the file and in `images`.

    Raises:
        SettingsError: The file does not contain rows.
    """
    found, places = FileContents(file.path.name), ImagePlaces(file.path.parent, SettingsError, images)
    rows = list(file.objects())
    for row in rows:
        found.rows += 1
        if not isinstance(row, dict):
            found.bad += 1
            continue
        names = image_names(file, row)
        found.images += len(names)
        found.missing += sum(_file(name, places) is None for name in names)
        _count_texts(found, file, row)
    count = min(samples, len(rows))
    found.samples = [(place, rows[place]) for place in (n * len(rows) // count for n in range(count))]
    return found


def image_names(file: RowFile, row: dict[str, Any]) -> list[str]:
    """Return the image names in a row."""
    names = [row.get(name) for name in IMAGE_FIELDS] if file.is_rl else row.get("images")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _count_texts(found: FileContents, file: RowFile, row: dict[str, Any]) -> None:
    if file.is_rl:
        said = row.get("evaluation")
        success = said.get("success") if isinstance(said, dict) else None
        found.right, found.wrong = found.right + (success is True), found.wrong + (success is False)
        return
    turns = row.get("messages")
    texts = [
        turn["content"]
        for turn in (turns if isinstance(turns, list) else [])
        if isinstance(turn, dict) and isinstance(turn.get("content"), str)
    ]
    if not texts:
        found.bad += 1
        return
    question, answer = sum(map(len, texts[:-1])), len(texts[-1])
    found.question, found.answer = found.question + question, found.answer + answer
    found.longest = max(found.longest, question + answer)
    try:
        success = read_verdict(texts[-1]).success
        found.right, found.wrong = found.right + (success is True), found.wrong + (success is False)
        return
    except AnswerError:
        pass
    try:
        plan = read_plan(texts[-1])
    except AnswerError:
        return
    found.plans, found.steps = found.plans + 1, found.steps + len(plan.steps)


def inspect(
    path: Path, samples: int = 0, images: Path | None = None
) -> tuple[list[str], list[tuple[RowFile, FileContents]]]:
    """Return the table of a row file, or of all in a folder, and their contents.

    Raises:
        SettingsError: A file cannot be read, or the folder has no row files.
    """
    files = [RowFile(path)] if path.is_file() else row_files(path)
    found = [(file, contents_of(file, samples, images)) for file in files]
    lines = [
        "| file | rows | bad | images | missing | question characters | answer characters | longest | True "
        "| False | plans | steps per plan |",
        "|---" * 12 + "|",
    ]
    for _, one in found:
        good = max(1, one.rows - one.bad)
        lines.append(
            f"| {one.name} | {one.rows} | {one.bad} | {one.images} | {one.missing} | {one.question // good} "
            f"| {one.answer // good} | {one.longest} | {one.right} | {one.wrong} | {one.plans} "
            f"| {one.steps / max(1, one.plans):.1f} |"
        )
    return lines, found


def write_samples(
    path: Path, found: Sequence[tuple[RowFile, FileContents]], images: Path | None = None
) -> None:
    """Write the page of samples.

    Raises:
        SettingsError: The page cannot be written.
    """
    parts = [HEAD]
    for file, contents in found:
        parts.append(
            f"<h1>{html.escape(contents.name)}: {len(contents.samples)} of {contents.rows} rows</h1>"
        )
        places = ImagePlaces(file.path.parent, SettingsError, images)
        parts += [_section(file, number, row, places) for number, row in contents.samples]
    write_text(path, "\n".join(parts) + "\n", SettingsError, "Page")


def _section(file: RowFile, number: int, row: Any, places: ImagePlaces) -> str:
    names = image_names(file, row) if isinstance(row, dict) else []
    pictures = "".join(_picture(_file(name, places), name) for name in names)
    turns = row.get("messages") if isinstance(row, dict) else None
    if isinstance(turns, list) and all(isinstance(turn, dict) for turn in turns):
        shown = [(str(turn.get("role")), str(turn.get("content"))) for turn in turns]
    else:
        shown = [("", json.dumps(row, ensure_ascii=False, indent=1))]
    texts = "".join(
        f"<p class=role>{html.escape(role)}</p>" * bool(role) + f"<pre>{html.escape(text[-MAX_TEXT:])}</pre>"
        for role, text in shown
    )
    return f"<section><h2>row {number}</h2>{pictures}{texts}</section>"


def _file(name: str, places: ImagePlaces) -> Path | None:
    try:
        return places.find(name)
    except SettingsError:
        return None


def _picture(path: Path | None, name: str) -> str:
    try:
        if path is None:
            raise PictureError("missing")
        image = Picture.open(path).image.convert("RGB")
    except PictureError:
        return f"<em>{html.escape(name)} is missing or damaged</em>"
    image.thumbnail((THUMB, THUMB))
    content = io.BytesIO()
    image.save(content, "WEBP", quality=80)
    return f'<img alt="" src="data:image/webp;base64,{base64.b64encode(content.getvalue()).decode()}">'
