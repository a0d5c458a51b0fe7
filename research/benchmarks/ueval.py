"""UEval: answers of text and images, judged by rubrics for each.

The text consists of the numbered texts of the steps, separated by blank lines. As published, it is the same
texts without separators. The official evaluator scores a missing item as an empty text, which can even earn
points. Here an empty answer is a gap and counts zero.

Its `ueval_eval.py` asks about one rubric after the other through google-genai. Its caches are off, because
only the hosted service has them. Paths are absolute, because it resolves relative ones from the current
folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...backend.core.errors import SettingsError
from ...backend.core.files.atomic import name_fault
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
    checked,
    data_path,
    given,
    id_in,
    image_fault,
    numbers_in,
    read_rows,
    results_json,
    results_object,
    text_in,
    write_image,
    write_json,
    write_lines,
)

FILE = "ueval.json"
SCRIPT = "ueval_eval.py"
FIGURES = {"text_avg_rate": "text", "image_avg_rate": "image"}
AGAIN = "Run benchmark collect again."


class UEval(Benchmark):
    """UEval: 1,000 questions in eight tasks, four of them open."""

    metrics = ("both", "text", "image")
    terms = BenchmarkTerms(
        title="UEval",
        evaluator="zlab-princeton/UEval @ 3a5b5ea",
        data="huggingface.co/datasets/zlab-princeton/UEval (parquet, or its rows as JSON).",
        licences="evaluator MIT; data as its card says.",
    )
    files = (SCRIPT,)
    needs = ("google.genai", "datasets", "PIL")

    def items(self, data: BenchmarkData) -> list[BenchmarkItem]:
        """Return one item per question, with its rubrics."""
        path = data_path(data, "ueval", self.terms, "data")
        more = ("text_rubrics", "image_rubrics", "question_type")
        items = [
            BenchmarkItem(id_in(row, "id"), text_in(row, "prompt"), category=str(row["task"]), row=row)
            for row in read_rows(path, ("id", "task", "prompt"), more)
        ]
        return checked(items, data.split)

    def write(self, place: SubmissionPlace, answers: Answers) -> list[str]:
        """Write the images, and one JSON file with all answers."""
        entries: list[dict[str, object]] = []
        for item, answer in answers:
            names: list[str] = []
            for number, picture in enumerate(answer.pictures if answer else (), 1):
                name = f"images/{item.id}_{number}.png"
                write_image(place.folder / name, picture)
                names.append(str(place.shown / name))
            text = _text(answer, place.as_published)
            entries.append({"id": item.id, "text_answer": text, "image_answer": names})
        content = json.dumps(entries, ensure_ascii=False, indent=1) + "\n"
        (place.folder / FILE).write_bytes(content.encode("utf-8", "replace"))
        return []

    def read(self, folder: Path, items: Iterable[BenchmarkItem]) -> list[ItemFault]:
        """Read the answers like the evaluator.

        Entries are found by their ids as strings, and the last entry of an id counts. Relative image paths
        are resolved by their file names, in the submission's folder.
        """
        entries = {str(one["id"]): one for one in _entries(folder / FILE) if one.get("id") is not None}
        found = (_fault(folder, item, entries.get(item.id)) for item in items)
        return [fault for fault in found if fault is not None]

    def values(
        self, submission: Path, results: Path | None, items: Iterable[BenchmarkItem]
    ) -> dict[str, Values]:
        """Read the file of the evaluator's `--output_path`: shares of met rubrics.

        `both` is the mean of an item's two shares.
        """
        rows = results_object(given(results, "FILE (its --output_path)")).get("items")
        if not isinstance(rows, list):
            raise SettingsError(
                "The results have no list 'items'.", "Pass the file of the evaluator's --output_path."
            )
        return {str(row.get("id")): _rates(row) for row in rows if isinstance(row, dict)}

    def plan(self, place: EvaluatorPaths, items: Sequence[BenchmarkItem]) -> EvaluatorPlan:
        """Return one job for all items, and jobs for parts of them."""
        answers = _entries(place.submission / FILE)
        for entry in answers:
            names = _image_names(entry)
            entry["image_answer"] = [str((place.submission / "images" / name).resolve()) for name in names]
        written = write_json(place.work / "answers.json", answers)

        def job(name: str, of: Sequence[BenchmarkItem]) -> EvaluatorJob:
            folder = place.work / name
            # The script looks answers up by the ids of its data, unconverted; ids of answers are strings.
            data = write_lines(folder / "data" / "test.jsonl", [{**item.row, "id": item.id} for item in of])
            argv = ["--model_output_path", str(written), "--output_path", str(folder / "results.json")]
            argv += ["--hf_dataset", str(data.parent), "--model", "judge", "--no_cache"]
            environment = {"GEMINI_API_KEY": place.token, "GOOGLE_GEMINI_BASE_URL": place.address}
            return EvaluatorJob(place.checkout / SCRIPT, argv, folder, environment=environment)

        results = place.work / "whole" / "results.json"
        return EvaluatorPlan(
            [job("whole", items)],
            results,
            lambda: numbers_in(results_object(results).get("summary"), FIGURES),
            [job(f"part{number}", part) for number, part in enumerate(place.parts(items))],
        )


def _entries(path: Path) -> list[dict[str, Any]]:
    entries = results_json(path)
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise SettingsError(f"{str(path)!r} is not a list of answers.", AGAIN)
    return entries


def _image_names(entry: Mapping[str, Any]) -> list[str]:
    """Return the file names of an entry's images."""
    images = entry.get("image_answer")
    shown = [one for one in (images if isinstance(images, list) else [images]) if one]
    for one in shown:
        fault = name_fault(Path(one).name, windows=False) if isinstance(one, str) else "is not a string"
        if fault:
            raise SettingsError(
                f"Entry {str(entry.get('id'))[:80]!r} of {FILE}: the image name {str(one)[:80]!r} {fault}.",
                AGAIN,
            )
    return [Path(one).name for one in shown]


def _fault(folder: Path, item: BenchmarkItem, entry: Mapping[str, Any] | None) -> ItemFault | None:
    if entry is None:
        return ItemFault(item.id, "its entry is missing: the evaluator would judge an empty text")
    text = entry.get("text_answer", "")
    if not isinstance(text, str):
        return ItemFault(item.id, "its text_answer is not a string")
    try:
        names = _image_names(entry)
    except SettingsError as error:
        return ItemFault(item.id, error.message)
    if not text.strip() and not names:
        return ItemFault(item.id, "its answer is empty")
    faults = (image_fault(item, folder / "images" / name) for name in names)
    return next((fault for fault in faults if fault is not None), None)


def _text(answer: ItemAnswer | None, as_published: bool) -> str:
    if answer is None:
        return ""
    if as_published:
        return answer.joined
    words = [step.text for step in answer.steps if step.text]
    return "\n\n".join(f"{number}. {text}" for number, text in enumerate(words, 1))


def _rates(row: dict[str, Any]) -> Values:
    values: dict[str, float] = {}
    for name in ("text", "image"):
        score = row.get(f"{name}_score")
        rate = score.get("rate") if isinstance(score, dict) else None
        if rate is None:
            continue
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
            raise SettingsError(
                f"{str(row.get('id'))[:80]!r}: its {name} rate is not a number from 0 to 1.",
                "Pass the file of the evaluator's --output_path.",
            )
        values[name] = float(rate)
    return {**values, "both": sum(values.values()) / len(values)} if values else {}


BENCHMARK = UEval()
