"""CoMM, task 3 (continue a manual whose first half is given) and task 4 (write a manual for a title).

The official evaluator cuts texts at numbers in round brackets and at square and angle brackets. These are
replaced here without losing words, and `write` reports how often. Each text of the data gives two items, one
per task. The questions are our own phrasing; the evaluator recognizes the given steps by their numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ....backend.errors import SettingsError
from ....backend.pictures import Picture
from ..base.benchmark import (
    Answers,
    BenchmarkData,
    BenchmarkItem,
    BenchmarkTerms,
    BenchmarkTraits,
    ItemAnswer,
    ItemFault,
    SubmissionPlace,
    Values,
    given,
)
from ..base.rows import (
    ImageFinder,
    checked,
    data_path,
    id_in,
    image_fault,
    read_rows,
    results_json,
    write_image,
)

FILE = "results.json"
MARK = "<IMAGE>"
MAX_IMAGES = 10
"""Maximum number of images that the evaluator shows, including those of the question."""
NUMBER = re.compile(r"\((\d+)\)")
STEP = re.compile(r"\(\d+\)\s(.*?)\s*(?=\(\d+\)|$)", re.DOTALL)
FORBIDDEN = str.maketrans({"[": "(", "]": ")", "<": "‹"})
SCORES = {
    "completeness": ("completeness", "Completeness"),
    "image quality": ("Image_Quality", "image quality"),
    "text fidelity": ("text fidelity to images", "Text Fidelity to Image"),
}
CONSISTENCY = ("style_consistency", "entity_consistency", "trend_consistency")


class Comm(BenchmarkTraits):
    """CoMM, with both tasks of every text."""

    metrics = (*SCORES, *(name.replace("_", " ") for name in CONSISTENCY))
    terms = BenchmarkTerms(
        title="CoMM",
        evaluator="HKUST-LongGroup/CoMM @ 0da05d4",
        data="huggingface.co/datasets/HKUST-LongGroup/CoMM (its file of texts, and the images).",
        licences="data CC-BY-4.0 by its card; the repository names none.",
    )

    def items(self, data: BenchmarkData) -> list[BenchmarkItem]:
        """Return two items per text: task 3 and task 4."""
        path = data_path(data, "comm", self.terms)
        images = ImageFinder(path if path.is_dir() else path.parent, data.images)
        items: list[BenchmarkItem] = []
        for row in read_rows(path, ("data_id", "step_info"), ("title",)):
            steps = _steps(row)
            title = clean(row["title"])[0] if isinstance(row.get("title"), str) else ""
            name = id_in(row, "data_id")
            items.append(_continued(name, title, steps, images))
            asked = f"Show with a picture for each step, in numbered steps: {title}"
            items.append(BenchmarkItem(f"{name}_task4", asked, category="task4"))
        # A text with a single step has no first half to continue.
        return checked([item for item in items if item.text], data.split)

    def judge_calls(self, item: BenchmarkItem) -> int:
        """Return 3: coherence and completeness, the content that texts imply, and whether images show it."""
        return 3

    def write(self, place: SubmissionPlace, answers: Answers) -> list[str]:
        """Write a folder for every item and return notes on rewritten texts and omitted images."""
        notes: list[str] = []
        for item, answer in answers:
            folder = place.folder / item.id
            for number, image in enumerate(item.images, 1):
                write_image(folder / "origin" / f"input_{number}.jpg", Picture.open(image))
            text, pictures, note = written(answer, int(item.row.get("begins", 1)), len(item.images))
            notes += [f"{item.id}: {note}"] if note else []
            names = [f"predict_{len(item.images) + number}.jpg" for number in range(1, len(pictures) + 1)]
            for name, picture in zip(names, pictures, strict=True):
                write_image(folder / name, picture)
            content = {
                "model_input": item.text.replace("<image>", MARK),
                "model_output": text,
                "input_image_list": [f"input_{number}.jpg" for number in range(1, len(item.images) + 1)],
                "output_gt_image_list": [],
                "prediction_image_list": names,
            }
            folder.mkdir(parents=True, exist_ok=True)
            written_content = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
            (folder / FILE).write_bytes(written_content.encode("utf-8", "replace"))
        return notes

    def read(self, folder: Path, items: Iterable[BenchmarkItem]) -> list[ItemFault]:
        """Return the items that the official loader would skip or misread."""
        return [fault for item in items if (fault := _fault(folder / item.id, item)) is not None]

    def values(
        self, submission: Path, results: Path | None, items: Iterable[BenchmarkItem]
    ) -> dict[str, Values]:
        """Read the evaluator's `ID_taskN/evaluation_results.json` files.

        Points from 0 to 10 become shares. "NA" is zero, as in the evaluator.
        """
        folder = given(results, "FOLDER (of its ID_taskN folders, below results/MODEL)")
        found: dict[str, Values] = {}
        for item in items:
            path = folder / item.id / "evaluation_results.json"
            content = results_json(path) if path.exists() else None
            if isinstance(content, dict):
                found[item.id] = _values(content)
        return found


def _steps(row: dict[str, Any]) -> list[list[dict[str, Any]]]:
    steps = row["step_info"]
    whole = isinstance(steps, list) and all(
        isinstance(step, list) and all(isinstance(part, dict) for part in step) for step in steps
    )
    if not whole:
        raise SettingsError(
            f"{str(row.get('data_id'))[:80]!r}: the field step_info is not a list of steps.",
            "Check that this is the file of the benchmark.",
        )
    return steps


def _continued(
    name: str, title: str, steps: list[list[dict[str, Any]]], images: ImageFinder
) -> BenchmarkItem:
    """Build task 3: the first half of the steps is given and the plan continues from there."""
    half = len(steps) // 2
    if not half:
        return BenchmarkItem(f"{name}_task3", "")
    texts: list[str] = []
    names: list[Any] = []
    for number, step in enumerate(steps[:half], 1):
        words: list[str] = []
        for part in step:
            if part.get("type") == "image":
                names.append(part.get("image_path"))
                words.append("<image>")
            elif isinstance(part.get("content"), str):
                words.append(clean(part["content"])[0])
        texts.append(f"({number}) {' '.join(words)}")
    about = f"These are the first steps of a manual with pictures, {title}:"
    asked = f"{about} {' '.join(texts)} Go on to its end."
    return BenchmarkItem(f"{name}_task3", asked, images.find(names), "task3", {"begins": half + 1})


def clean(text: str) -> tuple[str, bool]:
    """Replace what the evaluator would cut at.

    Square brackets become round ones, a number in brackets loses the opening one, and < becomes a quotation
    mark.

    Returns:
        The new text, and whether anything was replaced.
    """
    found = " ".join(text.translate(FORBIDDEN).split())
    # The remainder of one number can form another: "(1(2)".
    while NUMBER.search(found):
        found = NUMBER.sub(r"\1)", found)
    return found, found != " ".join(text.split())


def written(answer: ItemAnswer | None, begins: int, given_images: int) -> tuple[str, list[Picture], str]:
    """Join the steps into one text with image marks.

    Args:
        answer: The answer, if there is one.
        begins: Number of the first step.
        given_images: Number of images in the question.

    Returns:
        The text, the images that fit, and a note on what was changed.
    """
    parts: list[str] = []
    pictures: list[Picture] = []
    changed = dropped = 0
    for number, step in enumerate(answer.steps if answer else (), begins):
        text, other = clean(step.text)
        changed += other
        mark = ""
        if step.picture is not None and given_images + len(pictures) < MAX_IMAGES:
            pictures.append(step.picture)
            mark = f" {MARK}"
        elif step.picture is not None:
            dropped += 1
        parts.append(f"({number}) {text}{mark}")
    notes = [f"{changed} texts rewritten"] * bool(changed) + [f"{dropped} images left out"] * bool(dropped)
    return " ".join(parts), pictures, ", ".join(notes)


def _fault(folder: Path, item: BenchmarkItem) -> ItemFault | None:
    if not (folder / FILE).is_file():
        return ItemFault(item.id, f"{FILE} is missing")
    try:
        content = results_json(folder / FILE)
    except SettingsError as error:
        return ItemFault(item.id, error.message)
    names = ("model_input", "model_output", "input_image_list", "prediction_image_list")
    if not isinstance(content, dict) or any(name not in content for name in names):
        return ItemFault(item.id, f"{FILE} must contain {', '.join(names)}")
    given, predicted = content["input_image_list"], content["prediction_image_list"]
    if not isinstance(given, list) or not isinstance(predicted, list):
        return ItemFault(item.id, "input_image_list or prediction_image_list is not a list")
    steps = STEP.findall(str(content["model_output"]))
    if not steps:
        return ItemFault(item.id, "model_output contains no steps")
    if any(re.search(r"[\[\]]|<(?!IMAGE>)", step) for step in steps):
        return ItemFault(item.id, "a text contains a bracket at which the evaluator would cut it")
    marks = str(content["model_output"]).count(MARK)
    if marks != len(predicted):
        return ItemFault(item.id, f"{marks} image marks for {len(predicted)} images")
    if len(given) >= MAX_IMAGES and item.category == "task3":
        return ItemFault(item.id, f"the question has {MAX_IMAGES} images: the evaluator would skip the item")
    if len(predicted) + len(given) > MAX_IMAGES:
        return ItemFault(item.id, f"question and answer have more than {MAX_IMAGES} images")
    files = [folder / "origin" / str(name) for name in given]
    files += [folder / str(name) for name in predicted]
    return next((fault for file in files if (fault := image_fault(item, file)) is not None), None)


def _values(content: dict[str, Any]) -> Values:
    values: dict[str, float] = {}
    for metric, names in SCORES.items():
        for name in names:
            if isinstance(content.get(name), dict):
                one = content[name]
                values[metric] = _points(one.get("Score", one.get("overall_score")))
    coherence = content.get("coherence_score")
    if isinstance(coherence, dict):
        values |= {name.replace("_", " "): _points(coherence.get(name)) for name in CONSISTENCY}
    return values


def _points(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return min(10, max(0, value)) / 10 if number else 0.0


BENCHMARK = Comm()
