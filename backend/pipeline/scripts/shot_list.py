"""Shot lists: CSV tables of spreadsheets and storyboard programs, one row for each step.

The columns are known by their headings, in any order. Other columns, such as durations, are left out.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from ...types import Plan
from .steps import Beat, cast_name, plan_of

COLUMNS = {
    "name": ("name", "title", "scene", "shot name"),
    "number": ("shot", "no", "number", "nr", "#", "shot number", "panel"),
    "camera": (
        "camera",
        "shot size",
        "size",
        "shot type",
        "type",
        "angle",
        "camera angle",
        "movement",
        "camera movement",
        "framing",
        "lens",
    ),
    "place": ("location", "setting", "place", "set", "time of day", "time"),
    "seen": ("description", "action", "prompt", "visual", "image", "shot description", "what happens"),
    "said": ("caption", "dialogue", "dialog", "text", "voice over", "vo", "narration"),
    "cast": ("cast", "characters", "character", "actors", "talent"),
}
"""Meaning of a column: its headings, in lower case."""
SEPARATORS = ",;\t|"
NAMES = re.compile(r"[,;/&+]|\band\b")
MAX_CELL = 100_000


def read_shot_list(text: str) -> Plan:
    """Return the plan of a table.

    Raises:
        ValueError: It has no column that describes the images, or no rows.
    """
    head = text.split("\n", 1)[0]
    separator = max(SEPARATORS, key=head.count)
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=separator, strict=True))
    except csv.Error as error:
        raise ValueError(f"it is not a table: {error}") from error
    meanings = [_meaning(cell) for cell in rows[0]] if rows else []
    if "seen" not in meanings:
        known = ", ".join(COLUMNS["seen"][:3])
        raise ValueError(f"no column describes the images; call it {known}")
    beats, names = [], []
    for row in rows[1:]:
        cells = [(meaning, cell.strip()[:MAX_CELL]) for meaning, cell in zip(meanings, row, strict=False)]
        cast = None
        if "cast" in meanings:
            cast = tuple(filter(None, map(cast_name, NAMES.split(" , ".join(_all(cells, "cast"))))))
            names += cast
        seen = _all(cells, "seen")
        if seen or _all(cells, "said"):
            beats.append(
                Beat(
                    " ".join([*_all(cells, "number"), *_all(cells, "name")]),
                    [", ".join(_all(cells, "camera")), ", ".join(_all(cells, "place")), *seen]
                    if seen
                    else [],
                    _all(cells, "said"),
                    cast,
                )
            )
    return plan_of(beats, names)


def _meaning(heading: str) -> str:
    plain = " ".join(re.sub(r"[_.]", " ", heading).split()).casefold()
    return next((meaning for meaning, names in COLUMNS.items() if plain in names), "")


def _all(cells: Sequence[tuple[str, str]], meaning: str) -> list[str]:
    return [cell for found, cell in cells if found == meaning and cell]
