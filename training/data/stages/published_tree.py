"""The published tree: trajectories as folders of records and images, and data files naming them.

    OUT/data/interleave/white.png                                     source of images generated from text
    OUT/InterleaveThinker/Train-Data/{Nano_data,Klein_data}/NAME/     execution_record.json, step<k>_<2n>.png
    OUT/InterleaveThinker/Train-Data/{planner_sft,critic_sft}.json, critic_rl.jsonl

Paths are relative to OUT, where the published scripts are run. An image of a row is the image of a step if a
packed trajectory has it, and is in `images/` otherwise. Images are numbered through the whole trajectory in
steps of two, as published. Other keys of a record are kept, since the published readers ignore them.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ....backend.errors import SettingsError
from ....backend.exporters.record import FILE_NAME, record_of
from ....backend.files.image_decoding import reading_image
from ....backend.pictures import Picture
from ....backend.types import Trajectory
from ..rows.rl import WHITE_SIDE

TREE = "InterleaveThinker/Train-Data"
NANO, KLEIN = "Nano_data", "Klein_data"
IS_NANO = re.compile(r"nano|gemini", re.IGNORECASE)
"""Generators whose trajectories are in NANO; all others are in KLEIN."""
WHITE = "data/interleave/white.png"
IMAGE_FIELDS = ("origin_image_path", "edited_image_path")
MAX_NAME = 200


class PublishedTree:
    """Writes trajectories, then row files, into `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._places: dict[str, str] = {}
        self._names: set[str] = set()
        for name in (NANO, KLEIN, "images"):
            (root / TREE / name).mkdir(parents=True)
        self._keep(Picture.white((WHITE_SIDE, WHITE_SIDE)), WHITE)

    def add_trajectory(self, name: str, trajectory: Trajectory) -> None:
        """Write a trajectory's folder."""
        data = NANO if IS_NANO.search(trajectory.identities.generator) else KLEIN
        folder = f"{TREE}/{data}/{self._free(name, data)}"
        written: dict[str, str] = {}
        drawn = 0

        def keep(picture: Picture, stem: str) -> str:
            """Store an image of the record, and return its path.

            Generated images get a file each; source images are one of those, or came with the request.
            """
            nonlocal drawn
            if not stem.endswith("_source") and not stem.startswith("request_"):
                name = f"step{stem.split('_')[1]}_{2 * drawn}"
                drawn += 1
            elif picture.digest in written:
                return written[picture.digest]
            else:
                name = stem if stem.startswith("request_") else f"given_{len(written)}"
            written[picture.digest] = self._keep(picture, f"{folder}/{name}.png")
            return written[picture.digest]

        record = record_of(trajectory, keep)
        # The published builders require the reasoning.
        record["global_context"].setdefault("reasoning", "")
        for entry in record["steps"]:
            entry["source_img"] = entry["source_img"] or WHITE
        text = json.dumps(record, ensure_ascii=False, indent=4)
        (self._root / folder).mkdir(exist_ok=True)
        (self._root / folder / FILE_NAME).write_text(text, encoding="utf-8", errors="replace")

    def add_rows(self, name: str, rows: Iterable[tuple[dict[str, Any], Sequence[bytes]]], is_rl: bool) -> int:
        """Write a data file from rows with their images, with paths in the tree; returns the number of rows.

        Raises:
            SettingsError: A row for GRPO has no image after the edit.
        """
        found = []
        for row, contents in rows:
            paths = [self._image(content) for content in contents]
            if not is_rl:
                found.append({**row, "images": paths})
                continue
            before, after = IMAGE_FIELDS
            if not isinstance(row.get(after), str) or not paths:
                raise SettingsError(
                    f"A row of {name} lacks {after} (the image after the edit).", "Fix the row."
                )
            found.append({**row, before: paths[0] if len(paths) > 1 else WHITE, after: paths[-1]})
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found) if is_rl else None
        text = json.dumps(found, ensure_ascii=False, indent=1) + "\n" if lines is None else lines
        (self._root / TREE / name).write_text(text, encoding="utf-8", errors="replace")
        return len(found)

    def _keep(self, picture: Picture, place: str) -> str:
        """Write an image of a trajectory, and return its path; rows with the same image use the first one."""
        self._places.setdefault(picture.digest, place)
        (self._root / place).parent.mkdir(parents=True, exist_ok=True)
        (self._root / place).write_bytes(picture.png())
        return place

    def _image(self, content: bytes) -> str:
        """Return the path of a row's image, which is written unless a trajectory has it."""
        digest = Picture.from_bytes(content).digest
        if digest not in self._places:
            with reading_image(io.BytesIO(content), "The image") as image:
                ending = (image.format or "png").lower()
            self._places[digest] = f"{TREE}/images/{digest}.{ending}"
            (self._root / self._places[digest]).write_bytes(content)
        return self._places[digest]

    def _free(self, name: str, data: str) -> str:
        """Return a free folder name, with invalid characters replaced."""
        plain = re.sub(r"[^\w.-]", "_", name).lstrip(".")[:MAX_NAME] or "story"
        found, number = plain, 1
        while f"{data}/{found.lower()}" in self._names:
            number += 1
            found = f"{plain}-{number}"
        self._names.add(f"{data}/{found.lower()}")
        return found
