"""`run` with `check_story` and `story_checker`: output, resume, and options that cannot be combined."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_calls import call, verdict_reply

from interleave_thinker import StopReason, load_trajectory

FOUND = [{"step_number": 2, "kind": "identity", "problem": "The fox must be red."}]


def written(path: Path, *replies: str) -> str:
    path.write_text(json.dumps(replies), encoding="utf-8")
    return f"scripted:{path}"


def answer(findings: object) -> str:
    return f"<think>Looked.</think><answer>{json.dumps({'findings': findings})}</answer>"


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    plan = tmp_path / "plan.json"
    steps = [{"prompt": prompt} for prompt in ("a fox", "the fox runs", "the fox sleeps")]
    plan.write_text(json.dumps({"execution_plan": steps}), encoding="utf-8")
    return ["--plan", str(plan), "--generator", "fake:16"]


def checker(tmp_path: Path, *replies: str) -> list[str]:
    path = written(tmp_path / "checker.json", *replies)
    return ["--set", "check_story=2", "--set", f"story_checker={path}"]


def critic(tmp_path: Path, count: int) -> list[str]:
    return ["--critic", written(tmp_path / "critic.json", *[verdict_reply(True)] * count)]


def test_findings_are_printed_and_the_story_goes_on(tmp_path: Path, options: list[str]) -> None:
    out = tmp_path / "out"
    models = [*critic(tmp_path, 5), *checker(tmp_path, answer(FOUND), answer([]))]
    result = call("run", "a story", "--out", out, *options, *models)
    assert result.exit_code == 0, result.output
    for line in (
        "Story check: 1 finding\n    step 2, identity: The fox must be red.\n    step 2 is generated again\n",
        "Step 2 of 3  the fox runs\n    attempt 1: accepted, cached",
        "    prompt: the fox runs. The fox must be red.\n    attempt 2: accepted",
        "Story check: no findings\n",
        "3 of 3 images accepted",
    ):
        assert line in result.output
    trajectory = load_trajectory(out)
    assert [one.chosen for one in trajectory.results] == [0, 1, 0] and len(trajectory.checks) == 2
    assert "Story check, identity, attempt 1" in (out / "index.html").read_text(encoding="utf-8")
    again = call("run", "a story", "--out", out, *options, *models)
    assert "Story check: no findings (cached)" in again.output and again.output.count(", cached") == 4


def test_the_critics_model_checks_if_no_other_is_named(tmp_path: Path, options: list[str]) -> None:
    replies = [*[verdict_reply(True)] * 3, answer([])]
    shared = ["--critic", written(tmp_path / "critic.json", *replies), "--set", "check_story=1"]
    result = call("run", "a story", "--out", tmp_path / "out", *options, *shared)
    assert result.exit_code == 0 and "Story check: no findings" in result.output, result.output


def test_an_unreadable_check_is_a_warning(tmp_path: Path, options: list[str]) -> None:
    models = [*critic(tmp_path, 3), *checker(tmp_path, "fine", "fine")]
    result = call("run", "a story", "--out", tmp_path / "out", *options, *models)
    assert result.exit_code == 0 and "The story was not checked" in result.stderr
    assert [one.stop_reason for one in load_trajectory(tmp_path / "out").results] == [StopReason.accepted] * 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--set", "check_story=1", "--critic", "none"], "the critic is 'none'"),
        (["--set", "check_story=1"], "Add --set story_checker"),
        (["--set", "story_checker=scripted:x.json"], "Add --set check_story=1"),
        (["--set", "check_story=21"], "20"),
    ],
)
def test_impossible_settings(tmp_path: Path, options: list[str], given: list[str], message: str) -> None:
    result = call("run", "a story", "--out", tmp_path / "out", *options, *given)
    assert result.exit_code == 2 and message in result.stderr
    assert not (tmp_path / "out").exists()


def test_it_cannot_be_combined_with_max_draws(tmp_path: Path, options: list[str]) -> None:
    models = [*critic(tmp_path, 3), *checker(tmp_path, answer([]))]
    result = call("run", "a story", "--out", tmp_path / "out", *options, *models, "--set", "max_draws=9")
    assert result.exit_code == 2 and "max_draws" in result.stderr
