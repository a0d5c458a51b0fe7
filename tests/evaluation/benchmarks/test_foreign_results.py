"""Truncated, edited or wrong files of evaluators and submissions give a one-line error, never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.small_benchmarks import MINIATURES, answer

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.evaluation.benchmarks import open_benchmark
from interleave_thinker.evaluation.benchmarks.base.benchmark import (
    BenchmarkData,
    BenchmarkItem,
    SubmissionPlace,
)
from interleave_thinker.evaluation.benchmarks.base.evaluator import EvaluatorPaths as Work
from interleave_thinker.evaluation.benchmarks.base.evaluator import EvaluatorPlan
from interleave_thinker.evaluation.benchmarks.base.processes import LOG
from interleave_thinker.evaluation.benchmarks.ueval.own import QUESTIONS
from interleave_thinker.evaluation.runs import official_scoring as scoring

KINDS = ("ueval", "wise", "rise", "specv", "comm", "vistory")
BROKEN = (
    "",
    "[]",
    "[1]",
    "3",
    "null",
    '"text"',
    "NaN",
    "[" * 5000,
    '{"items": 3, "summary": 3, "tracks": [1], "score": [0], "index": {}}',
    '{"items": [null, {"id": [], "text_score": {"rate": true}}], "summary": {"text_avg_rate": NaN}}',
    '{"prompt_id": [], "score": {}, "11": {"status": "complete", "metrics": 3}}',
    '{"tracks": {"a": 1e999}, "overall_average": "x", "completeness": 4}',
)
RESULTS: dict[str, Callable[[Path, BenchmarkItem], Path]] = {
    "ueval": lambda folder, item: folder / "results.json",
    "wise": lambda folder, item: folder / "all_scores_results.jsonl",
    "rise": lambda folder, item: folder / "items.jsonl",
    "specv": lambda folder, item: folder / item.category / f"{item.id}.json",
    "comm": lambda folder, item: folder / item.id / "evaluation_results.json",
    "vistory": lambda folder, item: folder / "metrics" / "cids" / "story_results.json",
}
FIGURES = {
    "ueval": "whole/results.json",
    "wise": LOG,
    "rise": "answers/judge_judge.csv",
    "specv": "specv/eval/interleave/scores/answers/summary.json",
    "comm": "means-task3.json",
}
TABLES = ("-,Accuracy\nOverall,nan\n", '"' + "x" * 200_000, "-\rOverall\r\n\0", "-,Accuracy\nOverall\n")


class Made:
    """A miniature benchmark with a submission of four answers and its evaluator."""

    def __init__(self, name: str, folder: Path) -> None:
        data, self.submission = folder / "data", folder / "submission"
        data.mkdir()
        self.submission.mkdir()
        self.benchmark, self.data = open_benchmark(name), MINIATURES[name](data)
        self.items = self.benchmark.items(self.data)[:4]
        answers = ((item, answer(n)) for n, item in enumerate(self.items))
        self.benchmark.write(SubmissionPlace(self.submission, self.submission), answers)
        self.name, self.folder = name, folder

    def plan(self) -> EvaluatorPlan:
        evaluator: Any = import_module(f"..benchmarks.{self.name}.official", scoring.__package__).EVALUATOR
        number = len([*self.folder.glob("work*")])
        checkout, work = self.folder / "checkout", self.folder / f"work{number}"
        work.mkdir()
        checklists = [f"eval_checklist/interleave/{item.category}/{item.id}.json" for item in self.items]
        for name in (*evaluator.files, *checklists):
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (checkout / name).touch()
        place = Work(self.data, checkout, work, self.submission, "http://127.0.0.1:9", "key", 2, 5.0)
        rows = scoring._rows(self.name, self.data, self.benchmark)
        return evaluator.plan(place, self.items, rows)


@pytest.mark.parametrize("name", KINDS)
def test_broken_results_give_a_one_line_error_or_no_values(name: str, tmp_path: Path) -> None:
    made = Made(name, tmp_path)
    path = RESULTS[name](tmp_path / "results", made.items[0])
    path.parent.mkdir(parents=True)
    given = path if name in ("ueval", "wise", "rise") else tmp_path / "results"
    refused = 0
    for content in BROKEN:
        path.write_text(content)
        try:
            values = made.benchmark.values(made.submission, given, made.items)
        except SettingsError as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 1000
        else:
            assert not any(number for one in values.values() for number in one.values())
    assert refused >= 2


@pytest.mark.parametrize("name", FIGURES)
def test_broken_figures_give_a_one_line_error_or_none(name: str, tmp_path: Path) -> None:
    made = Made(name, tmp_path)
    plan = made.plan()
    (tmp_path / "work0" / "means-task4.json").write_text("{}")
    path = tmp_path / "work0" / FIGURES[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    for content in (*BROKEN, *TABLES, "Overall WiScore: 1.2.3\n"):
        path.write_text(content)
        try:
            found = plan.figures()
        except SettingsError as error:
            assert "\n" not in str(error) and len(str(error)) < 1000
        else:
            assert all(number == number and abs(number) < 1e12 for number in found.values())


@pytest.mark.parametrize(
    "entry",
    [
        *("3", "null", "[1]", '{"id": "0"}', '[{"id": "0", "image_answer": 3}]'),
        *('[{"id": "0", "image_answer": ["\\u0000"]}]', '[{"id": "0", "image_answer": [["x"]]}]'),
        '[{"id": "0", "image_answer": ["."]}]',
    ],
)
def test_an_edited_submission_of_ueval_gives_a_one_line_error(entry: str, tmp_path: Path) -> None:
    made = Made("ueval", tmp_path)
    (made.submission / "ueval.json").write_text(entry)
    with pytest.raises(SettingsError, match="Run benchmark collect again"):
        made.plan()
    with pytest.raises(SettingsError):
        QUESTIONS.questions(made.items[0], made.submission, BenchmarkData())


@pytest.mark.parametrize("images", ["3", "null", '{"a": 1}'])
def test_an_edited_submission_of_comm_is_reported(images: str, tmp_path: Path) -> None:
    made = Made("comm", tmp_path)
    path = made.submission / made.items[0].id / "results.json"
    path.write_text(
        '{"model_input": "a", "model_output": "(1) a", "input_image_list": [], '
        f'"prediction_image_list": {images}}}'
    )
    (fault,) = made.benchmark.read(made.submission, made.items)
    assert fault.item == made.items[0].id and "is not a list" in fault.reason
