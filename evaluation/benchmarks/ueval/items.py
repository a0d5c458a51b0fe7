"""UEval: answers of text and images, judged by rubrics for each.

The text consists of the numbered texts of the steps, separated by blank lines. As published, it is the same
texts without separators. The official evaluator scores a missing item as an empty text, which can even earn
points. Here an empty answer is a gap and counts zero.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ....backend.errors import SettingsError
from ....backend.files.names import name_fault
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
    checked,
    data_path,
    id_in,
    image_fault,
    read_rows,
    results_json,
    results_object,
    text_in,
    write_image,
)

FILE = "ueval.json"
RUBRICS = ("text_rubrics", "image_rubrics")


class UEval(BenchmarkTraits):
    """UEval: 1,000 questions in eight tasks, four of them open."""

    metrics = ("both", "text", "image")
    terms = BenchmarkTerms(
        title="UEval",
        evaluator="zlab-princeton/UEval @ 3a5b5ea",
        data="huggingface.co/datasets/zlab-princeton/UEval (parquet, or its rows as JSON).",
        licences="evaluator MIT; data as its card says.",
    )

    def items(self, data: BenchmarkData) -> list[BenchmarkItem]:
        """Return one item per question, with its rubrics."""
        path = data_path(data, "ueval", self.terms, "data")
        items = [
            BenchmarkItem(
                id_in(row, "id"),
                text_in(row, "prompt"),
                category=str(row["task"]),
                row={name: _rubrics(row, name) for name in RUBRICS},
            )
            for row in read_rows(path, ("id", "task", "prompt"), RUBRICS)
        ]
        return checked(items, data.split)

    def judge_calls(self, item: BenchmarkItem) -> int:
        """Return the number of rubrics: the evaluator asks about one per call."""
        return sum(len(item.row[name]) for name in RUBRICS)

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
        entries = entries_of(folder / FILE)
        lookup = {str(one["id"]): one for one in entries if one.get("id") is not None}
        found = (self._fault(folder, item, lookup) for item in items)
        return [fault for fault in found if fault is not None]

    def _fault(
        self, folder: Path, item: BenchmarkItem, lookup: dict[str, dict[str, Any]]
    ) -> ItemFault | None:
        entry = lookup.get(item.id)
        if entry is None:
            return ItemFault(item.id, "its entry is missing: the evaluator would judge an empty text")
        text = entry.get("text_answer", "")
        if not isinstance(text, str):
            return ItemFault(item.id, "its text_answer is not a string")
        try:
            names = image_names(entry)
        except SettingsError as error:
            return ItemFault(item.id, error.message)
        if not text.strip() and not names:
            return ItemFault(item.id, "its answer is empty")
        for name in names:
            fault = image_fault(item, folder / "images" / name)
            if fault is not None:
                return fault
        return None

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


def entries_of(path: Path) -> list[dict[str, Any]]:
    """Read the entries of a submission.

    Raises:
        SettingsError: If the file is not a list of objects.
    """
    entries = results_json(path)
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise SettingsError(f"{str(path)!r} is not a list of answers.", "Run benchmark collect again.")
    return entries


def image_names(entry: Mapping[str, Any]) -> list[str]:
    """Return the file names of an entry's images.

    Raises:
        SettingsError: If one is not a file name.
    """
    images = entry.get("image_answer")
    given = [one for one in (images if isinstance(images, list) else [images]) if one]
    for one in given:
        fault = name_fault(Path(one).name, windows=False) if isinstance(one, str) else "is not a string"
        if fault:
            raise SettingsError(
                f"Entry {str(entry.get('id'))[:80]!r} of {FILE}: the image name {str(one)[:80]!r} {fault}.",
                "Run benchmark collect again.",
            )
    return [Path(one).name for one in given]


def _rubrics(row: dict[str, Any], name: str) -> list[str]:
    """Return the criteria in a field: strings, or objects with the string `criterion`."""
    rubrics = row.get(name) or []
    rubrics = rubrics if isinstance(rubrics, list) else [None]
    criteria = [one.get("criterion", "") if isinstance(one, dict) else one for one in rubrics]
    found = [one for one in criteria if isinstance(one, str)]
    if len(found) < len(criteria):
        raise SettingsError(
            f"{str(row.get('id'))[:80]!r}: the field {name} is not a list of texts.",
            "Check that this is the file of the benchmark.",
        )
    return found


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
