"""Reads a folder with one text and its images: the output of a model that writes and generates in one pass.

Such a model's images and text are saved separately, so the k-th paragraph of the text is taken as the text of
the k-th image. Numbers that do not match are an error: a wrong guess would put texts under other images.
"""

from __future__ import annotations

import logging
import os
import re
from os.path import isfile
from pathlib import Path
from typing import Any

from ..errors import JournalError
from ..files.bounded_reader import read_import
from ..shown_text import shown_text

LOG = logging.getLogger(__name__)

TEXTS = ("story.txt", "story_00001.txt")
"""Names of the text: one written by hand, and the first one that ComfyUI's Save Text writes as `story`."""
IMAGES = (".png", ".jpg", ".jpeg", ".webp")
MAX_BYTES = 4 * 1024 * 1024
LINE = re.compile(r"^[ \t]*-{3,}[ \t]*$", re.MULTILINE)
BLANK = re.compile(r"\n[ \t]*\n")
NUMBER = re.compile(r"([0-9]+)")


def text_in(folder: str | Path) -> Path | None:
    """Return the text of a folder with a text and images; `None` without one."""
    return next((Path(folder, name) for name in TEXTS if isfile(os.path.join(folder, name))), None)


def listed(text: Path) -> list[dict[str, Any]]:
    """Return a text and the images next to it as an execution record of the form `texts`.

    The text is split at lines of three or more hyphens, or else at blank lines. A paragraph without an image
    may follow at the end; it becomes a text-only step.

    Raises:
        JournalError: The text cannot be read, or the numbers of paragraphs and images do not match.
    """
    content, notice = read_import(text, MAX_BYTES, JournalError, "Story")
    if notice:
        LOG.warning("%s: %s", shown_text(str(text)), notice)
    content = content.replace("\r\n", "\n").replace("\r", "\n")
    parts = (LINE if LINE.search(content) else BLANK).split(content)
    paragraphs = [part.strip() for part in parts if part.strip()]
    images = sorted((one for one in os.listdir(text.parent) if _is_image(one)), key=_by_numbers)
    if not images or not 0 <= len(paragraphs) - len(images) <= 1:
        raise JournalError(
            f"{str(text)!r} has {len(paragraphs)} paragraphs, and {len(images)} images are next to it.",
            "Write one paragraph for each image, in the order of the images' names; one more may follow at "
            "the end. Separate them with blank lines, or all of them with lines of three hyphens (---).",
        )
    steps: list[dict[str, Any]] = [
        {"step": number, "text": paragraph} for number, paragraph in enumerate(paragraphs, 1)
    ]
    for step, image in zip(steps, images, strict=False):
        step["image"] = image
    return steps


def _is_image(name: str) -> bool:
    return name.lower().endswith(IMAGES) and not name.startswith(".")


def _by_numbers(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts `2.png` before `10.png`."""
    return [
        (int(part), "") if part.isascii() and part.isdigit() else (-1, part) for part in NUMBER.split(name)
    ]
