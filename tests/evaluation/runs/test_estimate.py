"""Estimates of a benchmark before it starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_calls import Scripts, call
from support.small_agents import STORY
from support.small_benchmarks import MINIATURES
from support.small_teachers import SmallTeachers

from interleave_thinker.backend.answers.reading import write_plan
from interleave_thinker.backend.errors import JournalError
from interleave_thinker.backend.remote.addresses import hosted_specs
from interleave_thinker.backend.types import RunSettings
from interleave_thinker.evaluation.benchmarks import open_benchmark
from interleave_thinker.evaluation.runs.estimate import Estimator, as_lines
from interleave_thinker.evaluation.runs.running import BenchmarkRun, row_of
from interleave_thinker.training.data.executors.threads import ThreadExecutor
from interleave_thinker.training.data.trajectories.options import TrajectoryOptions
from interleave_thinker.training.data.trajectories.usage import Price, Role

MODELS: dict[Role, str] = {"planner": "teacher", "critic": "teacher", "generator": "fake 0"}


def silent(line: str) -> None:
    pass


@pytest.mark.parametrize(
    ("name", "calls"),
    [("wise", 9), ("ueval", 16), ("rise", 22), ("specv", 6), ("comm", 27), ("vistory", 78), ("tinyworld", 0)],
)
def test_number_of_judge_calls_of_the_evaluators(name: str, calls: int, tmp_path: Path) -> None:
    benchmark = open_benchmark(name)
    items = benchmark.items(MINIATURES[name](tmp_path))
    assert sum(map(benchmark.judge_calls, items)) == calls


def test_runs_reuse_the_plans_of_the_estimate(tmp_path: Path) -> None:
    items = open_benchmark("wise").items(MINIATURES["wise"](tmp_path))
    run = BenchmarkRun(
        tmp_path / "out",
        SmallTeachers(),
        RunSettings(max_attempts=4),
        TrajectoryOptions(),
        ThreadExecutor(2),
        silent,
    )
    folder = tmp_path / "out" / "items"
    prices = {"teacher": Price(input=10_000, output=0), "fake 0": Price(image=2)}
    estimator = Estimator(folder, run.settings, MODELS, prices, (200, 50))
    prompts = run.part(items)
    assert estimator.plan(prompts, run.teachers, run.executor, silent) == 0
    plans = {path: path.stat().st_mtime_ns for path in folder.glob("*/plan.json")}
    assert len(plans) == len(items)
    before = estimator.estimate(prompts)
    by_name = {one.what: one for one in before.amounts}
    assert (by_name["plans"].most, by_name["images"].least, by_name["images"].most) == (0, 27, 108)
    assert by_name["images"].likely is None and by_name["verdicts"].money == 0.0
    assert by_name["verdicts"].money_most == pytest.approx(2.0)
    assert "total cost: 54.00 to 432.00" not in "\n".join(as_lines(before, 9))
    run.carry_out(items)
    assert {path: path.stat().st_mtime_ns for path in plans} == plans
    asked = [json.loads(line) for path in folder.glob("*/ledger.jsonl") for line in path.open()]
    assert sum(one["role"] == "planner" for one in asked) == len(items)
    assert estimator.estimate(prompts).to_do == 0


def test_finished_items_improve_the_estimate(tmp_path: Path) -> None:
    items = open_benchmark("wise").items(MINIATURES["wise"](tmp_path))
    run = BenchmarkRun(
        tmp_path / "out",
        SmallTeachers(),
        RunSettings(),
        TrajectoryOptions(go_on=True),
        ThreadExecutor(1),
        silent,
    )
    run.carry_out(items[:5])
    estimator = Estimator(tmp_path / "out" / "items", run.settings, MODELS)
    found = estimator.estimate(run.part(items))
    images = next(one for one in found.amounts if one.what == "images")
    assert (found.done, found.to_do) == (5, 4)
    assert images.likely is not None and images.least < images.likely < images.most
    assert "| images | 12 |" in "\n".join(as_lines(found, 9))
    (tmp_path / "out" / "items" / row_of(items[8]).folder).mkdir()
    (tmp_path / "out" / "items" / row_of(items[8]).folder / "plan.json").write_text('{"steps": 3}')
    with pytest.raises(JournalError, match="damaged"):
        estimator.estimate(run.part(items))


def test_a_planning_failure_does_not_stop_the_estimate(tmp_path: Path) -> None:
    items = open_benchmark("wise").items(MINIATURES["wise"](tmp_path))
    teachers = SmallTeachers(nonsense="number 401")
    run = BenchmarkRun(
        tmp_path / "out", teachers, RunSettings(), TrajectoryOptions(), ThreadExecutor(2), silent
    )
    estimator = Estimator(tmp_path / "out" / "items", run.settings, MODELS)
    unplanned = estimator.plan(run.part(items), teachers, run.executor, silent)
    found = estimator.estimate(run.part(items), unplanned)
    assert (found.unplanned, found.plans) == (1, 8) and "could not be planned: 1" in as_lines(found, 0)[1]


def test_only_hosted_models_need_confirmation(tmp_path: Path) -> None:
    data = MINIATURES["wise"](tmp_path).path
    planner = Scripts(tmp_path).planner(*[write_plan(STORY)] * 9)
    hosted = ("--critic", "openai:judge@https://api.example.com/v1")
    command = ["benchmark", "wise", "--data", data, *planner, "--generator", "fake:64", "--out"]
    shown = call(*command, tmp_path / "a", *hosted)
    assert shown.exit_code == 3 and "Add --yes to start." in shown.output, shown.output
    assert "judge calls of the evaluator, later | 9" in shown.output and "--prices FILE" in shown.output
    assert not list((tmp_path / "a").glob("items/*/attempts"))
    local = call(*command, tmp_path / "b", "--critic", "none", "--max-attempts", 1, "--limit", 2)
    assert local.exit_code == 0 and "All items of this part are done" in local.output, local.output
    only = call(*command, tmp_path / "b", "--critic", "none", "--max-attempts", 1, "--limit", 3, "--estimate")
    assert only.exit_code == 0 and not only.output.endswith("collect"), only.output


@pytest.mark.parametrize(
    ("spec", "hosted"),
    [
        ("openai:gpt@https://api.openai.com/v1", True),
        ("openai:a@b@https://api.example.com", True),
        ("images:gpt-image@https://api.openai.com/v1", True),
        ("http:http://gpu-1:8011,https://draw.example.com", True),
        ("http://8.8.8.8:80", True),
        ("https://draw.example.com", True),
        ("gemini:gemini-3-pro-image", True),
        ("gemini:gemini-3-pro-image@http://127.0.0.1:8080", True),
        ("https://gpu-1:8011", False),
        ("openai:qwen@http://127.0.0.1:8000/v1", False),
        ("openai:qwen@http://[::1]:8000/v1", False),
        ("http:http://gpu-1:8011,//10.0.0.7:8011", False),
        ("images:qwen@http://node.cluster.local", False),
        ("http:@services.txt", False),
        ("openai:qwen@http://[bad", False),
        ("transformers:org/name.v2", False),
        ("diffusers:FOLDER", False),
    ],
)
def test_hosted_by_the_address(spec: str, hosted: bool) -> None:
    assert bool(hosted_specs([spec, spec])) is hosted
