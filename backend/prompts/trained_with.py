"""Records what a checkpoint was trained with next to it: prompt set and image size.

An agent that gets another prompt set or larger images than in training answers worse without any error. So
training writes this record and opening an agent applies it. If a trained folder has no record, a warning is
logged.
"""

from __future__ import annotations

import json
import logging
import re
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import SettingsError
from ..files.atomic import write_text
from ..files.bounded_reader import read_json
from ..shown_text import shown_text
from . import FOLDER_NAME, PromptSet, prompt_set_of, recorded

logger = logging.getLogger(__name__)

FILE = "trained_with.json"
RUN_FILE = "training.json"
"""File with the settings of a training run, in its folder; earlier versions wrote it without `FILE`."""
VERSION = 1
MIN_PIXELS, MAX_PIXELS = 1024, 16_777_216
MAX_BYTES = 1024 * 1024
TRAINER_FILES = ("trainer_state.json", "training_args.bin", "train_results.json", "all_results.json")
"""Files that trainers write next to the weights of a checkpoint."""
PUBLISHED = re.compile(r"interleave[-_ ]?thinker|planner|critic", re.IGNORECASE)
HUB_FOLDER = "models--"


@dataclass(frozen=True)
class TrainedWith:
    """The record of a checkpoint or adapter; `image_pixels` is `None` if it is unknown."""

    name: str
    prompt_set: PromptSet | None = None
    image_pixels: int | None = None
    elsewhere: bool = False
    """Whether another program trained the checkpoint, and it has no prompt set."""

    def save(self, folder: Path) -> None:
        """Write the record into a folder.

        Raises:
            SettingsError: A file cannot be written.
        """
        if self.prompt_set is not None:
            self.prompt_set.save(folder / FOLDER_NAME)
        if self.image_pixels is not None:
            text = json.dumps({"version": VERSION, "image_pixels": self.image_pixels})
            write_text(folder / FILE, f"{text}\n", SettingsError, "The checkpoint's record")

    def over(self, base: TrainedWith) -> TrainedWith:
        """Return this record of an adapter, completed by the record of its base model."""
        return TrainedWith(
            self.name,
            self.prompt_set or base.prompt_set,
            self.image_pixels or base.image_pixels,
            self.elsewhere and base.prompt_set is None,
        )


def trained_with(folder: str | Path, adapter: bool = False, file: str | None = None) -> TrainedWith:
    """Return the record of a checkpoint.

    Args:
        folder: Folder of the checkpoint.
        adapter: Whether it is an adapter, which is always trained.
        file: Name of a weight file in the folder.

    Raises:
        SettingsError: The record is damaged.
    """
    folder = Path(folder)
    prompt_set = prompt_set_of(folder)
    shown = file or next((part for part in folder.parts if part.startswith(HUB_FOLDER)), folder.name)
    was_trained = (
        adapter
        or PUBLISHED.search(shown) is not None
        or any((folder / name).exists() for name in TRAINER_FILES)
    )
    name = shown.removeprefix(HUB_FOLDER).replace("--", "/")
    pixels = _pixels(folder)
    return TrainedWith(name, prompt_set, pixels, was_trained and prompt_set is None and pixels is None)


def _pixels(folder: Path) -> int | None:
    own = recorded(folder, FILE)
    # A finished checkpoint is in the folder of its run, whose settings have the size in earlier versions.
    path = own if own.exists() else recorded(folder, RUN_FILE)
    path = path if path.exists() else folder.parent / RUN_FILE
    if not path.is_file():
        return None
    try:
        found: Any = read_json(path, SettingsError, "The checkpoint's record", MAX_BYTES)
    except SettingsError:
        if path.name != RUN_FILE:
            raise
        found = None
    values = found if isinstance(found, dict) else {}
    # Other programs use this name too, for example for their rows.
    if path.name == RUN_FILE and not {"stage", "image_pixels"} <= values.keys():
        return None
    value = values.get("image_pixels")
    if isinstance(value, bool) or not isinstance(value, int) or not MIN_PIXELS <= value <= MAX_PIXELS:
        raise SettingsError(
            f"image_pixels in {str(path)!r} must be a number from {MIN_PIXELS} to {MAX_PIXELS}, but is "
            f"{str(value)[:20]}.",
            "Correct the number, or delete the file.",
        )
    return value


_told: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
"""Warnings that were logged already, per agent."""


def say_once(agent: object, text: str) -> None:
    """Log a warning about an agent, only the first time."""
    told = _told.setdefault(agent, set())
    if text not in told:
        told.add(text)
        logger.warning("%s", shown_text(text))
