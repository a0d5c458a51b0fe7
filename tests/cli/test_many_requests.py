"""Many requests: `data trajectories` and the commands that read their runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_calls import Scripts, call


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text(json.dumps({"id": 1, "user_input": "tell of a house", "split": "train"}) + "\n")
    return path


def test_from_prompts_to_rows(tmp_path: Path, prompts: Path) -> None:
    models = Scripts(tmp_path).story(False, True, True, True)
    runs = tmp_path / "runs"
    done = call("data", "trajectories", prompts, "--out", runs, *models)
    assert done.exit_code == 0, done.output
    for stage, more in (("filter", []), ("planner-rows", ["--set", "kinds=text,count"]), ("sequences", [])):
        made = call("data", stage, runs, "--out", tmp_path / stage, *more)
        assert made.exit_code == 0, made.output
    assert len(json.loads((tmp_path / "planner-rows" / "planner_sft.json").read_text())) == 2


def test_failed_requests_give_exit_code_3(tmp_path: Path, prompts: Path) -> None:
    scripts = Scripts(tmp_path)
    models = [*scripts.planner("nonsense", "nonsense"), *scripts.critic("x"), "--generator", "fake:16"]
    done = call("data", "trajectories", prompts, "--out", tmp_path / "runs", *models)
    assert done.exit_code == 3 and "failed at planner" in done.output
    for wrong in (["--set", "shard=3/2"], ["--stop-after", "4h"]):
        assert call("data", "trajectories", prompts, "--out", tmp_path / "b", *models, *wrong).exit_code == 2
