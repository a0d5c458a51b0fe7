"""ViStoryBench: stories in shots, with reference images of their characters.

A plan has one step per shot. The images of the characters are the images of the request, which the planner
sees, and those of its cast: a shot gets the images of its own characters, next to the previous shot. The
character with the most shots comes first: if the generator takes too few images, it is kept. Shots and
characters that the official loader skips (a shot with a missing field, a character without description) are
skipped here too, so that both count the same shots. The figures of a story are those of the evaluators,
multiplied by the share of its shots that have an image.

Submissions have one image per shot, where the evaluators look for it. The first step with an image prompt is
the first shot, the second is the second, and so on. If generating an image failed, its shot stays empty and
no other shot moves. The evaluators skip shots without an image, so these are listed in a file next to the
images. The folder name that they call a timestamp is constant, so that two runs with the same images have the
same submission.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...backend.core.errors import SettingsError
from ...backend.core.files.atomic import name_fault
from ...backend.core.files.bounded_reader import read_json
from ...backend.core.types import MAX_STEPS
from .benchmark import (
    Answers,
    Benchmark,
    BenchmarkData,
    BenchmarkItem,
    BenchmarkTerms,
    ItemAnswer,
    ItemCast,
    ItemFault,
    SubmissionPlace,
    Values,
)
from .benchmark_files import (
    ImageFinder,
    checked,
    data_path,
    given,
    image_fault,
    results_json,
    results_object,
    write_image,
)

FILE = "story.json"
ON_STAGE = "Characters Appearing"
ASKED = {
    "Setting Description": "Setting",
    "Plot Correspondence": "What happens",
    "Static Shot Description": "What is seen",
    "Shot Perspective Design": "Camera",
}
"""Fields of a shot, and their names in the request."""
IMAGES = (".png", ".jpg", ".jpeg")
NO_MARK = str.maketrans({"<": "‹"})
"""The request marks images with angle brackets."""
NO_NAME = re.compile(r'[\x00-\x1f<>:"/|?*\\\ud800-\udfff]+')
RESULTS = {
    "cids cross": ("cids", "cids_cross_mean", 1.0),
    "cids self": ("cids", "cids_self_mean", 1.0),
    "characters counted": ("cids", "occm", 100.0),
    "single action": ("cids", "single_character_action", 4.0),
    "style cross": ("csd", "cross_csd", 1.0),
    "style self": ("csd", "self_csd", 1.0),
    "scene": ("prompt_align", "scene", 4.0),
    "action": ("prompt_align", "character_action", 4.0),
    "camera": ("prompt_align", "camera", 4.0),
    "aesthetic": ("aesthetic", "aesthetic_score", 10.0),
}
"""Metrics, each with its evaluator, its name there, and its best value."""
ROUNDING = 1.001
WRONG_FOLDER = "Check that this is the folder of the benchmark."
METHOD, MODE, LANGUAGE, TIMESTAMP = "interleave-thinker", "base", "en", "20000101_000000"
STORIES = Path(METHOD) / MODE / LANGUAGE / TIMESTAMP
MISSING = "missing.json"
SHOTS = "shots"


class ViStory(Benchmark):
    """ViStoryBench: 80 stories, in English."""

    metrics = tuple(RESULTS)
    optional = frozenset(RESULTS)
    shows_images = True
    needs_image = True
    by_hand = "is judged by detectors and encoders whose weights you must download. Run its bench_run.py"
    terms = BenchmarkTerms(
        title="ViStoryBench",
        evaluator="ViStoryBench/vistorybench @ 514cc31",
        data="huggingface.co/datasets/ViStoryBench/ViStoryBench (its folder of stories, named ViStory).",
        licences="evaluator Apache-2.0, data MIT, as its README says.",
    )

    def items(self, data: BenchmarkData) -> list[BenchmarkItem]:
        """Return one item per story."""
        path = data_path(data, "vistory", self.terms, "ViStory", "dataset/ViStory", "data/dataset/ViStory")
        try:
            names = [one.name for one in path.iterdir() if one.name.isdecimal() and one.is_dir()]
        except OSError as error:
            raise SettingsError(
                f"Cannot read the folder of stories {str(path)!r}: {error.strerror or error}.",
                self.terms.how("vistory"),
            ) from error
        if not names:
            raise SettingsError(
                f"{str(path)!r} contains no stories, such as 01/{FILE}.",
                WRONG_FOLDER,
            )
        names.sort(key=lambda name: (int(name), name))
        return checked([_item(path, name, data.images or path) for name in names], data.split)

    def write(self, place: SubmissionPlace, answers: Answers) -> list[str]:
        """Write a folder for every story that has an answer.

        Raises:
            OSError: If a file cannot be written.
        """
        (place.folder / STORIES).mkdir(parents=True)
        notes: list[str] = []
        missing: dict[str, list[int]] = {}
        for item, answer in answers:
            if answer is not None:
                missing[item.id], note = _write(_shots_of(place.folder, item), item, answer)
                notes += [f"{item.id}: {note}"] if note else []
        content = {name: numbers for name, numbers in missing.items() if numbers}
        (place.folder / MISSING).write_text(json.dumps(content) + "\n")
        return notes

    def read(self, folder: Path, items: Iterable[BenchmarkItem]) -> list[ItemFault]:
        """Check that every shot has its image, or is listed as missing, and that nothing else is there."""
        missing = _missing(folder)
        faults = (_fault(_shots_of(folder, item), item, missing.get(item.id, ())) for item in items)
        return [fault for fault in faults if fault is not None]

    def values(
        self, submission: Path, results: Path | None, items: Iterable[BenchmarkItem]
    ) -> dict[str, Values]:
        """Read the evaluators' `metrics/NAME/story_results.json` files, as shares of the best value.

        A value that is missing for one story is zero. A metric that is missing for all stories was not
        measured.
        """
        folder = _metrics(given(results, "FOLDER (of a time, below its bench_results/METHOD/MODE/LANGUAGE)"))
        rows = {name: _story_results(folder / name) for name in {one[0] for one in RESULTS.values()}}
        found: dict[str, dict[str, float]] = {}
        for item in items:
            share = _drawn_share(submission, item)
            for metric, (evaluator, name, best) in RESULTS.items():
                value = rows[evaluator].get(item.id, {}).get(name)
                if value is not None:
                    where = f"{metric!r} of story {item.id}"
                    found.setdefault(item.id, {})[metric] = share * _share(value, best, where)
        measured = {metric for values in found.values() for metric in values}
        return {
            name: {metric: values.get(metric, 0.0) for metric in RESULTS if metric in measured}
            for name, values in found.items()
        }


def _item(path: Path, number: str, images: Path) -> BenchmarkItem:
    story = read_json(path / number / FILE, SettingsError, "Story")
    where = f"Story {number}"
    if not isinstance(story, dict):
        raise SettingsError(f"{where}: {FILE} is not a JSON object.", WRONG_FOLDER)
    shots = _shots(story, where)
    characters = story.get("Characters")
    characters = characters if isinstance(characters, dict) else {}
    appearing = Counter(name for _, shot in shots for name in _on_stage(shot) if name in characters)
    names = [name for name, _ in appearing.most_common()]
    text = _text(shots, [_described(name, characters[name]) for name in names])
    row = {"shots": [number for number, _ in shots], "appearances": appearing.total()}
    found = tuple(_reference(images, f"{number}/image", name, where) for name in names)
    present = tuple(tuple(_on_stage(shot)) for _, shot in shots)
    cast = ItemCast(tuple(zip(names, found, strict=True)), present) if found else None
    return BenchmarkItem(number, text, found, _category(story), row, len(shots), cast)


def _shots(story: Mapping[str, Any], where: str) -> list[tuple[int, Mapping[str, Any]]]:
    """Return the shots that the official loader reads, with their numbers."""
    shots = story.get("Shots")
    if not isinstance(shots, list) or not all(isinstance(shot, dict) for shot in shots):
        raise SettingsError(f"{where} has no list 'Shots'.", WRONG_FOLDER)
    found: dict[int, Mapping[str, Any]] = {}
    for shot in shots:
        if not all(field in shot for field in (*ASKED, ON_STAGE)):
            continue
        number = str(shot.get("index", ""))
        if not (number.isdecimal() and number.isascii() and len(number) < 7) or int(number) in found:
            raise SettingsError(
                f"{where}: {number[:40]!r} is not a shot number, or occurs twice. Check the data."
            )
        found[int(number)] = shot
    if not 0 < len(found) <= MAX_STEPS:
        raise SettingsError(f"{where} has {len(found)} shots. A plan can have 1 to {MAX_STEPS}.")
    return list(found.items())


def _english(value: Any) -> Any:
    return value.get(LANGUAGE) if isinstance(value, dict) else None


def _on_stage(shot: Mapping[str, Any]) -> list[str]:
    names = _english(shot[ON_STAGE])
    found = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return list(dict.fromkeys(found))


def _plain(text: Any) -> str:
    """Return a text in one line, without characters that a request cannot contain."""
    found = " ".join(text.split()).translate(NO_MARK) if isinstance(text, str) else ""
    return found.encode("utf-8", "replace").decode()


def _described(name: str, character: Any) -> str:
    fields = character if isinstance(character, dict) else {}
    shown, prompt = _plain(fields.get("name_en")) or _plain(name), _plain(fields.get("prompt_en"))
    return f"<image> {shown}{f': {prompt}' if prompt else ''}"


def _text(shots: Sequence[tuple[int, Mapping[str, Any]]], characters: Sequence[str]) -> str:
    """Build the request: the task, the characters and every shot."""
    lines = [f"Tell this story in pictures, one for each of its {len(shots)} shots, in their order."]
    if characters:
        lines += ["", "The characters must look as in these pictures in every shot:", *characters]
    for place, (_, shot) in enumerate(shots, 1):
        lines += ["", f"Shot {place}"]
        lines += [
            f"{shown}: {text}" for field, shown in ASKED.items() if (text := _plain(_english(shot[field])))
        ]
        names = ", ".join(map(_plain, _on_stage(shot)))
        lines.append(f"Characters: {names or 'none'}")
    return "\n".join(lines)


def _reference(images: Path, inner: str, name: str, where: str) -> Path:
    """Return the first image of a character, as the official loader does.

    Raises:
        SettingsError: If it is not found, or a link leads out of the folder of the stories.
    """
    fault = name_fault(name, windows=False)
    if fault:
        raise SettingsError(
            f"{where}: the character {name[:80]!r} {fault}.",
            WRONG_FOLDER,
        )
    folder, root = images / inner / name, os.path.realpath(images)
    if not Path(os.path.realpath(folder)).is_relative_to(root):
        raise SettingsError(
            f"{where}: the folder {str(folder)!r} is a link to a place outside of the data.",
            "Replace the link by a copy of its target.",
        )
    for inside, folders, files in os.walk(folder):
        folders.sort()
        found = next((one for one in sorted(files) if one.lower().endswith(IMAGES)), None)
        if found is not None:
            written = os.path.relpath(os.path.join(inside, found), images)
            return ImageFinder(images, None).find([written])[0]
    raise SettingsError(
        f"{where} has no image of {name[:80]!r} in {str(folder)!r}.",
        "Download the complete data, or pass the folder with the stories' images: --images FOLDER.",
    )


def _category(story: Mapping[str, Any]) -> str:
    kind = _english(story.get("Story_type"))
    found = " ".join(NO_NAME.sub(" ", kind).split()).strip(". ")[:60] if isinstance(kind, str) else ""
    return found if found and not name_fault(found) else "story"


def _metrics(results: Path) -> Path:
    """Return the folder of the evaluators' results; a folder above it is fine if it contains only one run."""
    levels = ("metrics", "*/metrics", "*/*/metrics", "*/*/*/metrics", "*/*/*/*/metrics")
    found = [path for level in levels for path in sorted(results.glob(level)) if path.is_dir()]
    if len(found) != 1:
        raise SettingsError(
            f"{str(results)!r} contains {len(found)} runs of the evaluators.",
            "Pass the folder of one run, which contains metrics/.",
        )
    return found[0]


def _story_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the results of an evaluator by story; empty if it was not run."""
    path = folder / "story_results.json"
    if not path.exists():
        return {}
    rows = {name: row for name, row in results_object(path).items() if isinstance(row, dict)}
    whole = {name: row.get("metrics") for name, row in rows.items() if row.get("status") == "complete"}
    return {name: numbers for name, numbers in whole.items() if isinstance(numbers, dict)}


def _share(value: Any, best: float, where: str) -> float:
    """Return a value as a share of the best one. Negative similarities are zero."""
    counts = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e6
    number = float(value) if counts else math.nan
    if not -best * ROUNDING <= number <= best * ROUNDING:
        raise SettingsError(
            f"{where} is {str(value)[:40]}, not a number up to {best:g}.",
            "Pass the results of the official evaluators.",
        )
    return min(1.0, max(0.0, number / best))


def _shots_of(submission: Path, item: BenchmarkItem) -> Path:
    return submission / STORIES / item.id / SHOTS


def _name(number: int) -> str:
    return f"shot_{number:02}.png"


def _drawn_share(submission: Path, item: BenchmarkItem) -> float:
    """Return the share of a story's shots that have an image."""
    numbers, folder = item.row["shots"], _shots_of(submission, item)
    return sum((folder / _name(number)).is_file() for number in numbers) / len(numbers)


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
            write_image(folder / _name(number), picture)
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
    names = {_name(number): number for number in item.row["shots"]}
    other = sorted(set(os.listdir(folder) if folder.is_dir() else ()) - set(names))
    if other:
        return ItemFault(item.id, f"{other[0][:80]!r} is no shot of the story")
    for name, number in names.items():
        if number not in missing or (folder / name).exists():
            fault = image_fault(item, folder / name)
            if fault is not None:
                return fault
    return None


BENCHMARK = ViStory()
