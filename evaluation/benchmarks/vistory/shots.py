"""Submissions of shots: one image per shot of a story, where ViStoryBench's evaluators look for it.

The first step with an image prompt is the first shot, the second is the second, and so on. If generating an
image failed, its shot stays empty and no other shot moves. The evaluators skip shots without an image, so
these are listed in a file next to the images, and the figures count them as zero. The folder name that they
call a timestamp is constant, so that two runs with the same images have the same submission.
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
    """A benchmark whose submission has an image per shot. An item's row lists the numbers of its `shots`."""

    needs_image = True

    def write(self, place: SubmissionPlace, answers: Answers) -> list[str]:
        """Write a folder for every story that has an answer.

        Raises:
            OSError: If a file cannot be written.
        """
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
        """Check like the official loader that every shot has one image whose name ends with its number.

        Raises:
            SettingsError: If the loader would fail for all stories.
        """
        root = folder / STORIES
        if (folder / METHOD / LANGUAGE).exists():
            raise SettingsError(
                f"{METHOD}/{LANGUAGE} would be read instead of {METHOD}/{MODE}/{LANGUAGE}. Remove it."
            )
        for path in root.iterdir() if root.is_dir() else ():
            if path.is_dir() and not path.name.isdecimal():
                raise SettingsError(
                    f"The folder {path.name[:80]!r} is not named by a story's number; the loader would "
                    "fail. Remove it."
                )
        missing = _missing(folder)
        faults = (_fault(root / item.id, item, missing.get(item.id, ())) for item in items)
        return [fault for fault in faults if fault is not None]


def drawn_share(submission: Path, item: BenchmarkItem) -> float:
    """Return the share of a story's shots that have an image."""
    try:
        found = shots_in(submission / STORIES / item.id)
    except ValueError:
        return 0.0
    numbers = item.row["shots"]
    return sum(number in found for number in numbers) / len(numbers)


def shots_in(story: Path) -> dict[int, Path]:
    """Return the images of a story's folder by shot number, as the official loader finds them.

    Raises:
        ValueError: If the loader would fail, or its choice would depend on chance.
    """
    try:
        names = sorted(os.listdir(story))
        if any(TIMES.fullmatch(name) and (story / name).is_dir() for name in names):
            raise ValueError("a folder named like a timestamp would be read instead of the shots")
        inner = [name for name in names if name.lower() in INNER or name.endswith(INNER)]
        if len(inner) > 1:
            raise ValueError(f"both {inner[0]!r} and {inner[1]!r} look like the folder of shots")
        folder = story / inner[0] if inner and (story / inner[0]).is_dir() else story
        return _by_number(folder)
    except OSError as error:
        raise ValueError(f"the folder of its shots cannot be read ({error.strerror or error})") from error


def _by_number(folder: Path) -> dict[int, Path]:
    found: dict[int, Path] = {}
    for name in sorted(os.listdir(folder)):
        path = folder / name
        if not name.lower().endswith(ENDINGS) or not path.is_file():
            continue
        written = name.split("_")[-1].split(".")[0]
        if not (written.isdecimal() and written.isascii()):
            raise ValueError(f"the name {name[:80]!r} does not end with a shot number")
        if int(written) in found:
            raise ValueError(f"shot {int(written)} has two images")
        found[int(written)] = path
    return found


def _write(folder: Path, item: BenchmarkItem, answer: ItemAnswer) -> tuple[list[int], str]:
    """Write the shots of a story.

    Returns:
        The numbers of the shots without an image, and a note for the user.
    """
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
    notes = (
        [f"shots without an image, which count as zero: {len(lacking)} of {len(numbers)}"] if lacking else []
    )
    surplus = len(pictures) - len(numbers)
    notes += [f"images after the last shot, left out: {surplus}"] if surplus > 0 else []
    return lacking, "; ".join(notes)


def _missing(folder: Path) -> dict[str, list[int]]:
    """Return the shots that the writer listed as missing."""
    if not (folder / MISSING).exists():
        return {}
    content = results_json(folder / MISSING)
    if not isinstance(content, dict) or not all(isinstance(one, list) for one in content.values()):
        raise SettingsError(f"{MISSING} is not a list of shots by story.", "Run benchmark collect again.")
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
            return ItemFault(item.id, f"shot {number} has no image")
    other = sorted(set(found) - set(numbers))
    return ItemFault(item.id, f"shot {other[0]} does not belong to the story") if other else None
