"""Contract tests for all benchmarks, tests of each one's own rules, and damaged or wrong files of others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from support.small_benchmarks import MINIATURES, answer, picture

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.research.benchmarks import REGISTRY, open_benchmark
from interleave_thinker.research.benchmarks.benchmark import (
    LOG,
    AnswerStep,
    Benchmark,
    BenchmarkData,
    BenchmarkItem,
    EvaluatorPaths,
    EvaluatorPlan,
    ItemAnswer,
    SubmissionPlace,
)
from interleave_thinker.research.benchmarks.benchmark_files import OneImageBenchmark
from interleave_thinker.research.benchmarks.comm import FILE, MARK, STEP, clean, written
from interleave_thinker.research.commands import benchmark as command

KINDS = sorted(REGISTRY)
OTHERS = ("ueval", "wise", "rise", "specv", "comm")
BROKEN = (
    "",
    "[]",
    "null",
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
}
FIGURES = {
    "ueval": "whole/results.json",
    "wise": LOG,
    "rise": "answers/judge_judge.csv",
    "specv": "specv/eval/interleave/scores/answers/summary.json",
    "comm": "means-task3.json",
}
TABLES = ("-,Accuracy\nOverall,nan\n", '"' + "x" * 200_000, "-\rOverall\r\n\0", "-,Accuracy\nOverall\n")


def submission(name: str, folder: Path) -> tuple[Benchmark, list[BenchmarkItem], Path]:
    """Write a whole submission of handmade answers to the miniature (eight items of the tiny world)."""
    data = folder / "data"
    data.mkdir()
    benchmark = open_benchmark(name)
    items = benchmark.items(MINIATURES[name](data))[:8]
    out = folder / "submission"
    out.mkdir()
    benchmark.write(SubmissionPlace(out, out), ((item, answer(n)) for n, item in enumerate(items)))
    return benchmark, items, out


@pytest.mark.parametrize("name", KINDS)
def test_submissions_are_read_back_and_damage_is_found(name: str, tmp_path: Path) -> None:
    benchmark, items, out = submission(name, tmp_path)
    assert len({item.id for item in items}) == len(items) >= 5 and all(item.category for item in items)
    assert benchmark.read(out, items) == []
    # Damage one item at a time: images truncated, in another mode, missing, then all of its files missing.
    victim = items[len(items) // 2]
    own = [
        path
        for path in sorted(out.rglob("*"))
        if path.is_file()
        and re.search(rf"(^|[/_]){re.escape(victim.id)}([/._]|$)", path.relative_to(out).as_posix())
    ]
    pictures = [path for path in own if path.suffix in (".png", ".jpg")]
    assert pictures
    whole = pictures[-1].read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"no image"):
        pictures[-1].write_bytes(broken)
        assert [fault.item for fault in benchmark.read(out, items)] == [victim.id]
    Image.new("RGBA", (16, 16)).save(pictures[-1], "PNG")
    assert ["RGBA" in fault.reason for fault in benchmark.read(out, items)] == [True]
    pictures[-1].unlink()
    assert [fault.item for fault in benchmark.read(out, items)] == [victim.id]
    for path in own:
        path.unlink(missing_ok=True)
    assert [fault.item for fault in benchmark.read(out, items)] == [victim.id]


@pytest.mark.parametrize("name", KINDS)
def test_a_gap_does_not_stop_the_evaluator(name: str, tmp_path: Path) -> None:
    benchmark, items, _ = submission(name, tmp_path)
    out = tmp_path / "gaps"
    out.mkdir()
    benchmark.write(
        SubmissionPlace(out, out), ((item, None if n == 1 else answer(n)) for n, item in enumerate(items))
    )
    # Either the evaluator reads a gray image, or it skips the item and this is known.
    faults = benchmark.read(out, items)
    grey = isinstance(benchmark, OneImageBenchmark)
    assert [fault.item for fault in faults] == ([] if grey else [items[1].id])
    assert len([*out.iterdir()]) == len([*(tmp_path / "submission").iterdir()])


@pytest.mark.parametrize("name", KINDS)
def test_missing_data_gives_its_source_and_terms(name: str, tmp_path: Path) -> None:
    benchmark = open_benchmark(name)
    if name == "tinyworld":
        with pytest.raises(SettingsError):
            benchmark.items(BenchmarkData(tmp_path))
        return
    for data in (BenchmarkData(), BenchmarkData(tmp_path / "nothing")):
        with pytest.raises(SettingsError) as caught:
            benchmark.items(data)
        assert benchmark.terms.data in str(caught.value) and benchmark.terms.licences in str(caught.value)
    (tmp_path / "rows.json").write_text('[{"other": 1}]')
    with pytest.raises(SettingsError):
        benchmark.items(BenchmarkData(tmp_path / "rows.json"))


@pytest.mark.parametrize("name", KINDS)
def test_a_split_is_one_category_and_a_wrong_one_is_named(name: str, tmp_path: Path) -> None:
    data = MINIATURES[name](tmp_path)
    benchmark = open_benchmark(name)
    category = benchmark.items(data)[0].category
    found = benchmark.items(BenchmarkData(data.path, split=category))
    assert found and {item.category for item in found} == {category}
    with pytest.raises(SettingsError, match=re.escape(category)):
        benchmark.items(BenchmarkData(data.path, split="nonsense"))


def test_duplicate_and_unsafe_ids_are_rejected(tmp_path: Path) -> None:
    for ids in (["1", "1"], ["../1"], ["a/b"]):
        rows = [{"id": one, "task": "art", "prompt": "p"} for one in ids]
        (tmp_path / "rows.json").write_text(json.dumps(rows))
        with pytest.raises(SettingsError):
            open_benchmark("ueval").items(BenchmarkData(tmp_path / "rows.json"))


@pytest.mark.parametrize("category", ["../../out", "a\0b", "x" * 300])
def test_unsafe_categories_are_rejected(category: str, tmp_path: Path) -> None:
    data = MINIATURES["rise"](tmp_path)
    assert data.path
    rows = json.loads(data.path.read_text())
    data.path.write_text(json.dumps([rows[0], {**rows[1], "category": category}]))
    with pytest.raises(SettingsError, match="category"):
        open_benchmark("rise").items(data)


@pytest.mark.parametrize("text", ["x" * 100_001, "a \\ud800 b"])
def test_invalid_request_texts_are_reported(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text('[{"id": "a", "task": "art", "prompt": "' + text + '"}]')
    with pytest.raises(SettingsError, match="The text of 'a'"):
        open_benchmark("ueval").items(BenchmarkData(path))


def test_categories_of_wise_are_by_id(tmp_path: Path) -> None:
    items = open_benchmark("wise").items(MINIATURES["wise"](tmp_path))
    found = {item.id: item.category for item in items}
    assert found["400"] == "culture" and found["401"] == "time" and found["1000"] == "chemistry"


def test_specv_marks_are_where_images_are_named(tmp_path: Path) -> None:
    first = open_benchmark("specv").items(MINIATURES["specv"](tmp_path))[0]
    assert first.text == "Go on from <image>, then from <image>."
    assert [path.name for path in first.images] == ["comp_001_2.png", "comp_001_1.png"]


def test_ueval_image_paths_are_those_the_reader_needs(tmp_path: Path) -> None:
    benchmark, items, _ = submission("ueval", tmp_path)
    out = tmp_path / "other"
    out.mkdir()
    benchmark.write(SubmissionPlace(out, Path("runs/one")), [(items[0], answer(0))])
    (entry,) = json.loads((out / "ueval.json").read_text())
    assert entry["image_answer"][0] == "runs/one/images/0_1.png"
    assert entry["text_answer"].startswith("1. Bake") and "\n\n2. Cool it" in entry["text_answer"]


def test_the_ueval_evaluator_gets_ids_as_in_the_answers(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([{"id": 7, "task": "art", "prompt": "p"}]))
    benchmark = open_benchmark("ueval")
    items = benchmark.items(BenchmarkData(tmp_path / "rows.json"))
    benchmark.write(SubmissionPlace(tmp_path, tmp_path), [(items[0], answer(0))])
    place = EvaluatorPaths(
        BenchmarkData(), tmp_path, tmp_path / "work", tmp_path, "http://127.0.0.1:1", "token", 1, 1.0
    )
    benchmark.plan(place, items)
    (asked,) = map(json.loads, (tmp_path / "work/whole/data/test.jsonl").read_text().splitlines())
    (entry,) = json.loads((tmp_path / "ueval.json").read_text())
    assert asked["id"] == entry["id"] == "7"


def test_a_comm_text_gives_both_tasks_with_continued_numbering(tmp_path: Path) -> None:
    benchmark, items, out = submission("comm", tmp_path)
    assert [item.id for item in items[:2]] == ["manual0_task3", "manual0_task4"]
    assert items[0].text.count("<image>") == len(items[0].images) == 2
    content = json.loads((out / "manual0_task3" / FILE).read_text())
    assert STEP.findall(content["model_output"])[0].startswith("Bake 1) hour at (high) heat, 5 ‹ 6 (2 cups)")
    assert re.match(r"\(3\) ", content["model_output"])
    assert len(STEP.findall(content["model_input"])) == 2 == len(content["input_image_list"])
    all_items = benchmark.items(MINIATURES["comm"](tmp_path / "data"))
    assert [item.id for item in all_items if item.id.startswith("short")] == ["short_task4"]


def test_comm_shows_at_most_ten_images() -> None:
    many = ItemAnswer(tuple(AnswerStep(f"step {n}", picture(n)) for n in range(14)))
    text, pictures, note = written(many, 3, 4)
    assert len(pictures) == 6 == text.count(MARK) and note == "8 images left out"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(alphabet="a (1)[2]<3>\n２B", max_size=30), min_size=1, max_size=5))
def test_every_comm_text_is_read_back_as_one_step(texts: list[str]) -> None:
    steps = ItemAnswer(tuple(AnswerStep(text.strip(), picture(0)) for text in texts))
    text, _, _ = written(steps, 1, 0)
    found = STEP.findall(text)
    assert [one.replace(MARK, "").strip() for one in found] == [clean(one.strip())[0] for one in texts]


def test_values_are_read_from_results_of_evaluators(tmp_path: Path) -> None:
    benchmark, items, out = submission("wise", tmp_path)
    results = tmp_path / "results"
    results.mkdir()
    (results / "a_scores.jsonl").write_text('{"prompt_id": 1, "Subcategory": "s", "score": 1.0}\n')
    assert benchmark.values(out, results, items) == {"1": {"right": 1.0}}
    (results / "b.jsonl").write_text('{"prompt_id": 2, "score": 1.5}\n')
    with pytest.raises(SettingsError):
        benchmark.values(out, results, items)
    with pytest.raises(SettingsError, match="--results"):
        benchmark.values(out, None, items)
    rates = {"items": [{"id": "1", "text_score": {"rate": 0.5}, "image_score": {"rate": None}}]}
    (tmp_path / "ueval.json").write_text(json.dumps(rates))
    found = open_benchmark("ueval").values(out, tmp_path / "ueval.json", [])
    assert found == {"1": {"text": 0.5, "both": 0.5}}
    for rate in ("NaN", "Infinity", "1.5", "-1", "1" + "0" * 400):
        entry = f'{{"id": "1", "text_score": {{"rate": {rate}}}}}'
        (tmp_path / "ueval.json").write_text(f'{{"items": [{entry}]}}')
        with pytest.raises(SettingsError, match="not a number from 0 to 1"):
            open_benchmark("ueval").values(out, tmp_path / "ueval.json", [])
    answers = [{"expected_answer": "Yes", "answer": "Yes"}, {"expected_answer": "No", "answer": "Yes"}]
    (results / "d").mkdir()
    (results / "d" / "x.json").write_text(json.dumps(answers))
    found = open_benchmark("specv").values(
        out, results, [BenchmarkItem("x", "t", category="d"), BenchmarkItem("y", "t", category="d")]
    )
    assert found == {"x": {"as expected": 0.5}}
    (results / "d" / "x.json").write_text('[{"question": "Is it a list of answers?"}]')
    with pytest.raises(SettingsError, match="not a list of questions"):
        open_benchmark("specv").values(out, results, [BenchmarkItem("x", "t", category="d")])
    (results / "m_task4").mkdir()
    judged = {
        "completeness": {"Score": 8},
        "Image_Quality": {"Score": "NA"},
        "coherence_score": {"style_consistency": 5, "entity_consistency": 10**400},
    }
    (results / "m_task4" / "evaluation_results.json").write_text(json.dumps(judged))
    found = open_benchmark("comm").values(out, results, [BenchmarkItem("m_task4", "t")])
    assert found["m_task4"]["completeness"] == 0.8 and found["m_task4"]["image quality"] == 0.0
    assert found["m_task4"]["style consistency"] == 0.5 and found["m_task4"]["entity consistency"] == 1.0


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
        number = len([*self.folder.glob("work*")])
        checkout, work = self.folder / "checkout", self.folder / f"work{number}"
        work.mkdir()
        checklists = [f"eval_checklist/interleave/{item.category}/{item.id}.json" for item in self.items]
        for name in (*self.benchmark.files, *checklists):
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (checkout / name).touch()
        place = EvaluatorPaths(
            self.data, checkout, work, self.submission, "http://127.0.0.1:9", "key", 2, 5.0
        )
        return self.benchmark.plan(place, self.items)


@pytest.mark.parametrize("name", OTHERS)
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
    "entry", ["[1]", '[{"id": "0", "image_answer": [["x"]]}]', '[{"id": "0", "image_answer": ["."]}]']
)
def test_an_edited_submission_of_ueval_gives_a_one_line_error(entry: str, tmp_path: Path) -> None:
    made = Made("ueval", tmp_path)
    (made.submission / "ueval.json").write_text(entry)
    with pytest.raises(SettingsError, match="Run benchmark collect again"):
        made.plan()


def test_an_edited_submission_of_comm_is_reported(tmp_path: Path) -> None:
    made = Made("comm", tmp_path)
    path = made.submission / made.items[0].id / "results.json"
    path.write_text(
        '{"model_input": "a", "model_output": "(1) a", "input_image_list": [], "prediction_image_list": 3}'
    )
    (fault,) = made.benchmark.read(made.submission, made.items)
    assert fault.item == made.items[0].id and "is not a list" in fault.reason


def wise_rows(folder: Path, **more: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "merge.json"
    row = {"Prompt": "what it is", "Explanation": "it", "prompt_id": 1, **more}
    path.write_text(json.dumps([row]))
    return path


def test_the_first_version_of_wise_is_rejected(tmp_path: Path) -> None:
    benchmark = open_benchmark("wise")
    assert benchmark.items(BenchmarkData(wise_rows(tmp_path / "a", Category="time", prompt_id=520)))
    for number, (place, more) in enumerate(
        (
            ("b", {"Category": "time", "prompt_id": 521}),
            ("c", {"Category": "Biology", "prompt_id": 761}),
            ("WISE_legacy/data", {}),
        )
    ):
        with pytest.raises(SettingsError, match="first version"):
            benchmark.items(BenchmarkData(wise_rows(tmp_path / str(number) / place, **more)))


def test_every_benchmark_has_its_command() -> None:
    assert list(command.KINDS) == list(REGISTRY)
