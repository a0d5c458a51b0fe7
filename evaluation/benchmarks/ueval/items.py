"""UEval: answers of text and images, judged by rubrics for each.

Decision: the text is each step's words, numbered, with a blank line between; as published it is the same
words with nothing between. Its evaluator scores an item that is missing as an empty text, which can even
score, so an empty answer is a gap here and counts zero.
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
    """1,000 questions in eight tasks, four of them open."""

    metrics = ("both", "text", "image")
    terms = BenchmarkTerms(
        title="UEval",
        evaluator="zlab-princeton/UEval @ 3a5b5ea",
        data="huggingface.co/datasets/zlab-princeton/UEval (parquet, or its rows as JSON).",
        licences="evaluator MIT; data as its card says.",
    )

    def items(self, data: BenchmarkData) -> list[BenchmarkItem]:
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
        """One a rubric."""
        return sum(len(item.row[name]) for name in RUBRICS)

    def write(self, place: SubmissionPlace, answers: Answers) -> list[str]:
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
        """As the evaluator: entries by their ids as texts, the last one of an id counts, images from the
        working directory if their paths are relative (here: by their ends, below the folder)."""
        entries = entries_of(folder / FILE)
        lookup = {str(one["id"]): one for one in entries if one.get("id") is not None}
        found = (self._fault(folder, item, lookup) for item in items)
        return [fault for fault in found if fault is not None]

    def _fault(
        self, folder: Path, item: BenchmarkItem, lookup: dict[str, dict[str, Any]]
    ) -> ItemFault | None:
        entry = lookup.get(item.id)
        if entry is None:
            return ItemFault(item.id, "it has no entry: the evaluator would judge an empty text")
        text = entry.get("text_answer", "")
        if not isinstance(text, str):
            return ItemFault(item.id, "its text_answer is no text")
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
        """From the evaluator's `--output_path`: shares of rubrics met. `both` is the mean of an item's
        two."""
        rows = results_object(given(results, "FILE (its --output_path)")).get("items")
        if not isinstance(rows, list):
            raise SettingsError("The results have no list 'items'.", "Give the evaluator's --output_path.")
        return {str(row.get("id")): _rates(row) for row in rows if isinstance(row, dict)}


def entries_of(path: Path) -> list[dict[str, Any]]:
    """The entries of a submission; raises SettingsError."""
    entries = results_json(path)
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise SettingsError(f"{str(path)!r} is no list of objects.", "Call benchmark collect again.")
    return entries


def image_names(entry: Mapping[str, Any]) -> list[str]:
    """The names of an entry's images in the submission's folder of them; raises SettingsError for what is
    none."""
    images = entry.get("image_answer")
    given = [one for one in (images if isinstance(images, list) else [images]) if one]
    for one in given:
        fault = name_fault(Path(one).name, windows=False) if isinstance(one, str) else "is none"
        if fault:
            raise SettingsError(
                f"The entry {str(entry.get('id'))[:80]!r} of {FILE}: the image {str(one)[:80]!r} {fault}.",
                "Call benchmark collect again.",
            )
    return [Path(one).name for one in given]


def _rubrics(row: dict[str, Any], name: str) -> list[str]:
    """The criteria under a name, which are texts or have a text `criterion`."""
    rubrics = row.get(name) or []
    rubrics = rubrics if isinstance(rubrics, list) else [None]
    criteria = [one.get("criterion", "") if isinstance(one, dict) else one for one in rubrics]
    found = [one for one in criteria if isinstance(one, str)]
    if len(found) < len(criteria):
        raise SettingsError(f"{str(row.get('id'))[:80]!r}: {name} are no texts.", "Is it the right file?")
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
                f"{str(row.get('id'))[:80]!r}: its {name} rate is no share of 0 to 1.",
                "Give the evaluator's --output_path.",
            )
        values[name] = float(rate)
    return {**values, "both": sum(values.values()) / len(values)} if values else {}


BENCHMARK = UEval()
