"""The page that shows two benchmark folders side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_calls import call
from support.small_benchmarks import MINIATURES
from support.small_teachers import SmallTeachers

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.evaluation.benchmarks import open_benchmark
from interleave_thinker.evaluation.runs.pages import comparison
from interleave_thinker.evaluation.runs.running import BenchmarkRun
from interleave_thinker.evaluation.runs.scores import score
from interleave_thinker.evaluation.runs.settings import (
    BenchmarkOptions,
    BenchmarkSettings,
    digest_of,
    items_of,
    take_folder,
)
from interleave_thinker.evaluation.runs.submission import collect
from interleave_thinker.training.data.executors.threads import ThreadExecutor
from interleave_thinker.training.data.trajectories.options import TrajectoryOptions

HOSTILE = "what <script>alert(1)</script> {{ 7 * 7 }} is"


def scored(out: Path, data: Path, right: set[int], attempts: int) -> Path:
    benchmark = open_benchmark("wise")
    setting = BenchmarkSettings(
        benchmark="wise",
        data=str(data),
        data_digest="",
        models={"planner": "small", "critic": "small", "generator": "fake"},
        preset="ours",
        settings=BenchmarkOptions(max_attempts=attempts).run_settings(),
        version="1",
        commit="unknown",
    )
    items = benchmark.items(setting.where())
    setting = setting.model_copy(update={"data_digest": digest_of(items)})
    take_folder(out, setting)
    run = BenchmarkRun(
        out,
        SmallTeachers(),
        setting.settings,
        TrajectoryOptions(go_on=True),
        ThreadExecutor(2),
        lambda line: None,
    )
    run.carry_out(items_of(benchmark, setting)[1:])
    collect(out, with_gaps=True, log=lambda line: None)
    results = out / "results.jsonl"
    lines = [{"prompt_id": int(item.id), "score": int(int(item.id) in right)} for item in items]
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    score(out, results)
    return out


def test_the_items_that_differ_most_are_shown_side_by_side(tmp_path: Path) -> None:
    MINIATURES["wise"](tmp_path)
    data = tmp_path / "merge.json"
    data.write_text(data.read_text().replace("what number 400 is", HOSTILE))
    first = scored(tmp_path / "first", data, {1, 2}, 1)
    second = scored(tmp_path / "second", data, {2, 400, 521}, 3)
    shown = call("benchmark", "compare", first, second, "--page", tmp_path / "page.html")
    assert shown.exit_code == 0 and "page: " in shown.output, shown.output
    page = (tmp_path / "page.html").read_text()
    assert page.count("<article") == 2
    assert "http:" not in page and "https:" not in page and "<script>alert" not in page
    assert "what &lt;script&gt;alert(1)&lt;/script&gt; {{ 7 * 7 }} is" in page
    assert "max attempts (1, 3)" in page and "2 differ in" in page
    # Three images per side for two items, generated separately by each run.
    assert page.count('src="data:image/') == 12


def test_an_unusable_path_gives_a_one_line_error(tmp_path: Path) -> None:
    MINIATURES["wise"](tmp_path)
    first = scored(tmp_path / "first", tmp_path / "merge.json", {1}, 1)
    (tmp_path / "file").write_text("x")
    with pytest.raises(SettingsError):
        comparison.write(first, first, tmp_path / "file" / "page.html")
    comparison.write(first, first, tmp_path / "same.html")
    assert "Their settings are the same." in (tmp_path / "same.html").read_text()
