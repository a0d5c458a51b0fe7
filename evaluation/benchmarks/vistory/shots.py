"""Answers as shots: an image for each shot of a story, where ViStoryBench's evaluators look for it.

Decisions. The first step that asks for an image is the first shot, the second the second: a step whose image
could not be drawn leaves its shot empty and moves no other. Evaluators pass over a shot without an image, so
those are listed beside the images, and the figures count them as zero. The folder that they call a timestamp
is a constant: two runs that drew the same have the same submission.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from ....backend.errors import SettingsError
from ..base.benchmark import Answers, BenchmarkItem, BenchmarkTraits, ItemAnswer, ItemFault, SubmissionPlace
from ..base.rows import image_fault, results_json, write_image

METHOD, MODE, LANGUAGE, TIMESTAMP = "interleave-thinker", "base", "en", "20000101_000000"
STORIES = Path(METHOD) / MODE / LANGUAGE / TIMESTAMP
MISSING = "missing.json"
SHOTS = "shots"
INNER = ("shot", "shots")
TIMES = re.compile(r"\d{8}[_-]\d{6}")
ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp")


class ShotBenchmark(BenchmarkTraits):
    """A benchmark whose submission is such folders; an item's row has the numbers of its `shots`."""

    needs_image = True

    def write(self, place: SubmissionPlace, answers: Answers) -> list[str]:
        """Write a folder for every story that has an answer. Raises OSError."""
        root = place.folder / STORIES
        root.mkdir(parents=True)
        notes: list[str] = []
        missing: dict[str, list[int]] = {}
        for item, answer in answers:
            if answer is not None:
                missing[item.id], note = _write(root / item.id / SHOTS, item, answer)
                notes += [f"{item.id}: {note}"] if note else []
        content = {name: numbers for name, numbers in missing.items() if numbers}
        (place.folder / MISSING).write_text(json.dumps(content) + "\n")
        return notes

    def read(self, folder: Path, items: Iterable[BenchmarkItem]) -> list[ItemFault]:
        """As the loader: every shot has one image, whose name ends with the shot's number. Raises
        SettingsError for what ends the loader at all stories."""
        root = folder / STORIES
        if (folder / METHOD / LANGUAGE).exists():
            raise SettingsError(f"{METHOD}/{LANGUAGE} would be read in place of {METHOD}/{MODE}/{LANGUAGE}.")
        for path in root.iterdir() if root.is_dir() else ():
            if path.is_dir() and not path.name.isdecimal():
                raise SettingsError(f"{path.name[:80]!r} is no story's number; the loader would end there.")
        missing = _missing(folder)
        faults = (_fault(root / item.id, item, missing.get(item.id, ())) for item in items)
        return [fault for fault in faults if fault is not None]


def drawn_share(submission: Path, item: BenchmarkItem) -> float:
    """The share of a story's shots that have an image."""
    try:
        found = shots_in(submission / STORIES / item.id)
    except ValueError:
        return 0.0
    numbers = item.row["shots"]
    return sum(number in found for number in numbers) / len(numbers)


def shots_in(story: Path) -> dict[int, Path]:
    """The images of a story's folder by the shots' numbers, as the loader finds them; raises ValueError that
    says what it would fail at or choose by chance."""
    try:
        names = sorted(os.listdir(story))
        if any(TIMES.fullmatch(name) and (story / name).is_dir() for name in names):
            raise ValueError("a folder named as a time would be read in place of the shots")
        inner = [name for name in names if name.lower() in INNER or name.endswith(INNER)]
        if len(inner) > 1:
            raise ValueError(f"{inner[0]!r} and {inner[1]!r} may both be its shots")
        folder = story / inner[0] if inner and (story / inner[0]).is_dir() else story
        return _by_number(folder)
    except OSError as error:
        raise ValueError(f"there is no folder of its shots ({error.strerror or error})") from error


def _by_number(folder: Path) -> dict[int, Path]:
    found: dict[int, Path] = {}
    for name in sorted(os.listdir(folder)):
        path = folder / name
        if not name.lower().endswith(ENDINGS) or not path.is_file():
            continue
        written = name.split("_")[-1].split(".")[0]
        if not (written.isdecimal() and written.isascii()):
            raise ValueError(f"{name[:80]!r} does not end with a shot's number")
        if int(written) in found:
            raise ValueError(f"there are two images of shot {int(written)}")
        found[int(written)] = path
    return found


def _write(folder: Path, item: BenchmarkItem, answer: ItemAnswer) -> tuple[list[int], str]:
    """Write the shots of a story; returns the numbers of those without an image, and what is to be said."""
    pictures = [step.picture for step in answer.steps if step.asked]
    numbers: list[int] = item.row["shots"]
    folder.mkdir(parents=True)
    lacking: list[int] = []
    for at, number in enumerate(numbers):
        picture = pictures[at] if at < len(pictures) else None
        if picture is None:
            lacking.append(number)
        else:
            write_image(folder / f"shot_{number:02}.png", picture)
    notes = [f"shots without an image, which count zero: {len(lacking)} of {len(numbers)}"] if lacking else []
    surplus = len(pictures) - len(numbers)
    notes += [f"images beyond the last shot, left out: {surplus}"] if surplus > 0 else []
    return lacking, "; ".join(notes)


def _missing(folder: Path) -> dict[str, list[int]]:
    """The shots without an image that the writer knows of."""
    if not (folder / MISSING).exists():
        return {}
    content = results_json(folder / MISSING)
    if not isinstance(content, dict) or not all(isinstance(one, list) for one in content.values()):
        raise SettingsError(f"{MISSING} is no list of shots by story.", "Collect again.")
    return content


def _fault(folder: Path, item: BenchmarkItem, missing: Collection[int]) -> ItemFault | None:
    try:
        found = shots_in(folder)
    except ValueError as error:
        return ItemFault(item.id, str(error))
    numbers: list[int] = item.row["shots"]
    for number in numbers:
        if number in found:
            fault = image_fault(item, found[number])
            if fault is not None:
                return fault
        elif number not in missing:
            return ItemFault(item.id, f"there is no image of shot {number}")
    other = sorted(set(found) - set(numbers))
    return ItemFault(item.id, f"shot {other[0]} is none of the story") if other else None
