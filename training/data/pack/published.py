"""Writes the published tree: trajectories as folders of records and images, and data files naming them.

    OUT/data/interleave/white.png                                     source of images generated from text
    OUT/InterleaveThinker/Train-Data/{Nano_data,Klein_data}/NAME/     execution_record.json, step<k>_<2n>.png
    OUT/InterleaveThinker/Train-Data/{planner_sft,critic_sft}.json, critic_rl.jsonl

Paths are relative to OUT, where the published scripts are run; `prefix` makes them absolute for the tree's
final place. An image of a row is the image of a step if a packed trajectory has it, and is in `images/`
otherwise. Images are numbered through the whole trajectory in steps of two, as published. Other keys of a
record are kept, since the published readers ignore them.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ....backend.errors import SettingsError
from ....backend.exporters.record import FILE_NAME, record_of
from ....backend.files.image_decoding import reading_image
from ....backend.pictures import Picture
from ....backend.types import Trajectory
from ..rows.rl import WHITE_SIDE
from .row_files import IMAGE_FIELDS, PackedRow, RowFile

TREE = "InterleaveThinker/Train-Data"
NANO, KLEIN = "Nano_data", "Klein_data"
IS_NANO = re.compile(r"nano|gemini", re.IGNORECASE)
"""Generators whose trajectories are in NANO; all others are in KLEIN."""
WHITE = "data/interleave/white.png"
MAX_NAME = 200


class PublishedTree:
    """Writes trajectories, then row files, into `root`; `prefix` precedes every path."""

    def __init__(self, root: Path, prefix: str = "") -> None:
        self._root = root
        self._prefix = prefix.rstrip("/") + "/" if prefix else ""
        self._places: dict[str, str] = {}
        self._names: set[str] = set()
        for name in (NANO, KLEIN):
            (root / TREE / name).mkdir(parents=True)
        self.keep_drawn(Picture.white((WHITE_SIDE, WHITE_SIDE)), WHITE)

    def add_trajectory(self, name: str, trajectory: Trajectory) -> str:
        """Write a trajectory's folder; returns its path relative to OUT."""
        data = NANO if IS_NANO.search(trajectory.identities.generator) else KLEIN
        folder = f"{TREE}/{data}/{self._free(name, data)}"
        (self._root / folder).mkdir()
        pictures = _StepPictures(self, folder)
        record = record_of(trajectory, pictures.keep)
        # The published builders require the reasoning.
        record["global_context"].setdefault("reasoning", "")
        for entry in record["steps"]:
            if entry["source_img"] is None:
                entry["source_img"] = f"{self._prefix}{WHITE}"
        text = json.dumps(record, ensure_ascii=False, indent=4)
        (self._root / folder / FILE_NAME).write_text(text, encoding="utf-8", errors="replace")
        return folder

    def add_rows(self, file: RowFile, rows: Iterable[PackedRow]) -> None:
        """Write a data file under its own name, with the paths of its images in the tree."""
        lines = [self._row(packed, file) for packed in rows]
        if file.is_rl:
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in lines)
        else:
            text = json.dumps(lines, ensure_ascii=False, indent=1) + "\n"
        (self._root / TREE / file.path.name).write_text(text, encoding="utf-8", errors="replace")

    def keep_drawn(self, picture: Picture, place: str) -> str:
        """Write an image of a trajectory, and return its path for records.

        Rows with the same image use its first path.
        """
        self._places.setdefault(picture.digest, place)
        (self._root / place).parent.mkdir(parents=True, exist_ok=True)
        (self._root / place).write_bytes(picture.png())
        return f"{self._prefix}{place}"

    def _row(self, packed: PackedRow, file: RowFile) -> dict[str, Any]:
        names = iter(self._image(content) for content in packed.images)
        row = dict(packed.row)
        if not file.is_rl:
            return {**row, "images": list(names)}
        before, after = IMAGE_FIELDS
        if not isinstance(row.get(after), str):
            raise SettingsError(
                f"A row of {file.path.name} lacks {after} (the image after the edit).", "Fix the row."
            )
        row[before] = next(names) if len(packed.images) > 1 else f"{self._prefix}{WHITE}"
        return {**row, after: next(names)}

    def _image(self, content: bytes) -> str:
        digest = Picture.from_bytes(content).digest
        place = self._places.get(digest)
        if place is None:
            place = f"{TREE}/images/{digest}.{_ending(content)}"
            (self._root / TREE / "images").mkdir(exist_ok=True)
            (self._root / place).write_bytes(content)
            self._places[digest] = place
        return f"{self._prefix}{place}"

    def _free(self, name: str, data: str) -> str:
        """Return a free folder name, with invalid characters replaced."""
        plain = re.sub(r"[^\w.-]", "_", name).lstrip(".")[:MAX_NAME] or "story"
        found, number = plain, 1
        while f"{data}/{found.lower()}" in self._names:
            number += 1
            found = f"{plain}-{number}"
        self._names.add(f"{data}/{found.lower()}")
        return found


class _StepPictures:
    """Names the images of one trajectory."""

    def __init__(self, tree: PublishedTree, folder: str) -> None:
        self._tree, self._folder = tree, folder
        self._drawn = 0
        self._written: dict[str, str] = {}

    def keep(self, picture: Picture, stem: str) -> str:
        """Store an image of the record, and return its path.

        Generated images get a file each; source images are one of those, or came with the request.
        """
        known = self._written.get(picture.digest)
        if stem.endswith("_source") or stem.startswith("request_"):
            if known is None:
                name = stem if stem.startswith("request_") else f"given_{len(self._written)}"
                known = self._tree.keep_drawn(picture, f"{self._folder}/{name}.png")
                self._written[picture.digest] = known
            return known
        step = stem.split("_")[1]
        name = f"step{step}_{2 * self._drawn}.png"
        self._drawn += 1
        written = self._tree.keep_drawn(picture, f"{self._folder}/{name}")
        self._written[picture.digest] = written
        return written


def _ending(content: bytes) -> str:
    with reading_image(io.BytesIO(content), "The image") as image:
        return (image.format or "png").lower()
