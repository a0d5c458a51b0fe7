"""Submissions in folders: `ID/response.json` lists texts and images in order, next to the image files.

All benchmarks that judge whole stories use this format. An item without an answer has an empty list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ....backend.errors import SettingsError
from ....backend.files.bounded_reader import parse_json, read_bytes_if_any
from .benchmark import Answers, BenchmarkItem, BenchmarkTraits, ItemAnswer, ItemFault, SubmissionPlace
from .rows import image_fault, write_image

FILE = "response.json"
MAX_FILE = 16 * 1024 * 1024


class ContentBenchmark(BenchmarkTraits):
    """A benchmark whose submission consists of folders with `response.json`."""

    def write(self, place: SubmissionPlace, answers: Answers) -> list[str]:
        """Write one folder per item.

        Raises:
            OSError: If a file cannot be written.
        """
        for item, answer in answers:
            folder = place.folder / item.id
            folder.mkdir(parents=True)
            content = [] if answer is None else _content(folder, answer)
            text = json.dumps({"content": content}, ensure_ascii=False, indent=1) + "\n"
            (folder / FILE).write_bytes(text.encode("utf-8", "replace"))
        return []

    def read(self, folder: Path, items: Iterable[BenchmarkItem]) -> list[ItemFault]:
        """Return the items that would not be judged."""
        return [fault for item in items if (fault := read_content(folder, item)[1]) is not None]


def _content(folder: Path, answer: ItemAnswer) -> list[dict[str, str]]:
    content: list[dict[str, str]] = []
    pictures = 0
    for step in answer.steps:
        if step.text:
            content.append({"type": "text", "text": step.text})
        if step.picture is not None:
            pictures += 1
            write_image(folder / f"{pictures}.png", step.picture)
            content.append({"type": "image", "image": f"{pictures}.png"})
    return content


def read_content(folder: Path, item: BenchmarkItem) -> tuple[list[dict[str, Any]], ItemFault | None]:
    """Read the content of an item's folder.

    Returns:
        The parts, and a fault if the item would not be judged: the file is missing, empty or not JSON, or an
            image is missing or damaged.
    """
    path = folder / item.id / FILE
    try:
        found = read_bytes_if_any(path, MAX_FILE, SettingsError, "Answer")
        if found is None:
            return [], ItemFault(item.id, f"{FILE} is missing")
        value = parse_json(found, SettingsError, FILE)
    except SettingsError as error:
        return [], ItemFault(item.id, error.message)
    content = value.get("content", []) if isinstance(value, dict) else None
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        return [], ItemFault(item.id, f"{FILE} has no list 'content'")
    if not content:
        return [], ItemFault(item.id, f"the list 'content' in {FILE} is empty")
    for part in content:
        fault = _part_fault(folder / item.id, item, part)
        if fault is not None:
            return content, fault
    return content, None


def _part_fault(folder: Path, item: BenchmarkItem, part: dict[str, Any]) -> ItemFault | None:
    if part.get("type") == "image":
        name = part.get("image")
        if not isinstance(name, str) or Path(name).name != name:
            return ItemFault(item.id, f"{str(name)[:80]!r} is not a file name of an image")
        return image_fault(item, folder / name)
    if part.get("type") != "text":
        return ItemFault(item.id, f"unknown part of type {str(part.get('type'))[:40]!r}")
    return (
        None
        if isinstance(part.get("text"), str)
        else ItemFault(item.id, "the field 'text' of a part is not a string")
    )
