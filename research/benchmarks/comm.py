"""CoMM, task 3 (continue a manual whose first half is given) and task 4 (write a manual for a title).

The official evaluator cuts texts at numbers in round brackets and at square and angle brackets. These are
replaced here without losing words, and `write` reports how often. Each text of the data gives two items, one
per task. The questions are our own phrasing; the evaluator recognizes the given steps by their numbers.

Its `eval/eval_metric.py` writes its results below the current folder, so it runs in a folder of the run that
contains a link to its prompts. For these tasks it needs the ground truth only as a list of names. Evaluation
and means (`eval/cal_gpt4o_score.py`) are separate processes, because the script does not wait for its
threads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...backend.core.errors import SettingsError
from ...backend.core.pictures import Picture
from .benchmark import (
    Answers,
    Benchmark,
    BenchmarkData,
    BenchmarkItem,
    BenchmarkTerms,
    EvaluatorJob,
    EvaluatorPaths,
    EvaluatorPlan,
    ItemAnswer,
    ItemFault,
    SubmissionPlace,
    Values,
)
from .benchmark_files import (
    WRONG_FILE,
    ImageFinder,
    checked,
    data_path,
    given,
    id_in,
    image_fault,
    link,
    numbers_in,
    read_rows,
    results_json,
    results_object,
    write_image,
    write_json,
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
INNER = "eval"
EVALUATION, MEANS, METRICS = "eval_metric.py", "cal_gpt4o_score.py", "tot_metric"
TASKS = ("task3", "task4")
MODEL = "judge"


class Comm(Benchmark):
    """CoMM, with both tasks of every text."""

    metrics = (*SCORES, *(name.replace("_", " ") for name in CONSISTENCY))
    terms = BenchmarkTerms(
        title="CoMM",
        evaluator="HKUST-LongGroup/CoMM @ 0da05d4",
        data="huggingface.co/datasets/HKUST-LongGroup/CoMM (its file of texts, and the images).",
        licences="data CC-BY-4.0 by its card; the repository names none.",
    )
    files = (f"{INNER}/{EVALUATION}", f"{INNER}/{MEANS}", f"{INNER}/{METRICS}/gpt4o_eval.py")
    needs = ("openai", "PIL", "tqdm")

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

    def fault(self, folder: Path, item: BenchmarkItem) -> ItemFault | None:
        """Return why the official loader would skip or misread an item."""
        try:
            reason = _unread(folder / item.id, item)
        except SettingsError as error:
            reason = error.message
        return _image_fault(folder / item.id, item) if reason is None else ItemFault(item.id, reason)

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

    def plan(self, place: EvaluatorPaths, items: Sequence[BenchmarkItem]) -> EvaluatorPlan:
        """Return the evaluation of both tasks, followed by their means."""
        names = sorted({item.id.rpartition("_")[0] for item in items})
        truth = write_json(place.work / "truth.json", [{"data_id": name} for name in names])
        whole = place.work / "whole"
        tasks = [task for task in TASKS if any(item.id.endswith(task) for item in items)]
        jobs = _evaluations(place, whole, items, truth, tasks)
        tables = {task: place.work / f"means-{task}.json" for task in tasks}
        answers = whole / "answers" / "all"
        for task, table in tables.items():
            argv = [str(answers), MODEL, task]
            script = place.checkout / INNER / MEANS
            jobs.append(EvaluatorJob(script, argv, whole, kind="comm scores", more={"table": str(table)}))
        parts: list[EvaluatorJob] = []
        for number, part in enumerate(place.parts(items)):
            parts += _evaluations(place, place.work / f"part{number}", part, truth, tasks)
        results = whole / "results" / MODEL / "answers" / "all"
        return EvaluatorPlan(jobs, results, lambda: _means(tables), parts)


def _steps(row: dict[str, Any]) -> list[list[dict[str, Any]]]:
    steps = row["step_info"]
    whole = isinstance(steps, list) and all(
        isinstance(step, list) and all(isinstance(part, dict) for part in step) for step in steps
    )
    if not whole:
        raise SettingsError(
            f"{str(row.get('data_id'))[:80]!r}: the field step_info is not a list of steps.",
            WRONG_FILE,
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


def _unread(folder: Path, item: BenchmarkItem) -> str | None:
    """Return why the texts of an answer would be skipped or misread."""
    if not (folder / FILE).is_file():
        return f"{FILE} is missing"
    content = results_json(folder / FILE)
    names = ("model_input", "model_output", "input_image_list", "prediction_image_list")
    if not isinstance(content, dict) or any(name not in content for name in names):
        return f"{FILE} must contain {', '.join(names)}"
    shown, predicted = content["input_image_list"], content["prediction_image_list"]
    if not isinstance(shown, list) or not isinstance(predicted, list):
        return "input_image_list or prediction_image_list is not a list"
    steps = STEP.findall(str(content["model_output"]))
    if not steps:
        return "model_output contains no steps"
    if any(re.search(r"[\[\]]|<(?!IMAGE>)", step) for step in steps):
        return "a text contains a bracket at which the evaluator would cut it"
    marks = str(content["model_output"]).count(MARK)
    if marks != len(predicted):
        return f"{marks} image marks for {len(predicted)} images"
    if len(shown) >= MAX_IMAGES and item.category == "task3":
        return f"the question has {MAX_IMAGES} images: the evaluator would skip the item"
    too_many = len(predicted) + len(shown) > MAX_IMAGES
    return f"question and answer have more than {MAX_IMAGES} images" if too_many else None


def _image_fault(folder: Path, item: BenchmarkItem) -> ItemFault | None:
    content = results_object(folder / FILE)
    files = [folder / "origin" / str(name) for name in content["input_image_list"]]
    files += [folder / str(name) for name in content["prediction_image_list"]]
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


def _evaluations(
    place: EvaluatorPaths, folder: Path, items: Sequence[BenchmarkItem], truth: Path, tasks: Sequence[str]
) -> list[EvaluatorJob]:
    """Return the evaluator's calls for some items, in a separate folder."""
    answers = folder / "answers" / "all"
    for item in items:
        link(answers / item.id, place.submission / item.id)
    checkout = place.checkout.resolve()
    inner = checkout / INNER
    link(folder / METRICS, inner / METRICS)
    argv = ["--predict_results_path", str(answers.absolute()), "--model_type", MODEL]
    argv += ["--ground_truth_path", str(truth.absolute()), "--task_type"]
    more = {"key": place.token, "folder": str(inner)}
    environment = {"OPENAI_BASE_URL": f"{place.address}/v1"}
    script, path = inner / EVALUATION, (checkout, inner)
    return [EvaluatorJob(script, [*argv, task], folder, path, "comm", more, environment) for task in tasks]


def _means(tables: Mapping[str, Path]) -> dict[str, float]:
    found: dict[str, float] = {}
    for task, table in tables.items():
        means = results_object(table)
        found |= numbers_in(means, {name: f"{task} {name}" for name in means})
    return found


BENCHMARK = Comm()
