"""Output, files and exit codes of the command line."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest
from support.cli_calls import Scripts, call, python, start
from support.small_agents import STORY

from interleave_thinker import Picture, RunSettings, load_trajectory
from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.cli.lazy_group import COMMANDS


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path)


def test_help_lists_every_command() -> None:
    result = call("--help")
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)
    assert "130" in result.output


def test_version_is_that_of_the_project() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    result = call("--version")
    assert result.exit_code == 0
    assert f'version = "{result.output.split()[-1]}"' in project


def test_python_m_runs_the_command_line() -> None:
    code = (
        "import sys, runpy; sys.path[:0] = [sys.argv.pop(1)]; import conftest; "
        "runpy.run_module('interleave_thinker', run_name='__main__', alter_sys=True)"
    )
    done = python(code, Path(__file__).parents[1], "export", "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage: interleave-thinker export" in done.stdout


def test_run_prints_its_progress_and_the_paths_of_its_results(tmp_path: Path, scripts: Scripts) -> None:
    out = tmp_path / "out"
    result = call("run", "a house", "--out", out, *scripts.story(False, True, True, True))
    assert result.exit_code == 0, result.output
    assert (out / "index.html").is_file()
    trajectory = load_trajectory(out)
    assert [len(step.attempts) for step in trajectory.results] == [2, 0, 1, 1]
    for step in trajectory.results:
        if step.image:
            assert str(out / "pictures" / f"{step.image.digest}.png") in result.output
    assert "attempt 1: rejected" in result.output
    assert "prompt: better" in result.output
    assert "3 of 3 images accepted" in result.output
    assert str(out / "index.html") in result.output


def test_the_same_command_again_reuses_everything(tmp_path: Path, scripts: Scripts) -> None:
    command = ["run", "a house", "--out", tmp_path / "out", *scripts.story(False, True, True, True)]
    call(*command)
    before = load_trajectory(tmp_path / "out")
    result = call(*command)
    assert result.exit_code == 0, result.output
    assert "(from the run folder)" in result.output
    assert result.output.count(", cached") == 4
    assert load_trajectory(tmp_path / "out") == before


def test_a_rejected_step_is_exit_code_3(tmp_path: Path, scripts: Scripts) -> None:
    story = scripts.story(False, False, True, True)
    result = call("run", "x", "--out", tmp_path / "out", "--max-attempts", 2, *story)
    assert result.exit_code == 3, result.output
    assert "Never accepted: 2 attempts used up, attempt 2 kept: image" in result.output
    assert "2 of 3 images accepted" in result.output


def test_without_a_critic_each_step_is_generated_once(tmp_path: Path, scripts: Scripts) -> None:
    arguments = [*scripts.planner(write_plan(STORY)), "--critic", "none", "--generator", "fake"]
    result = call("run", "x", "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 0, result.output
    assert "3 images, not judged" in result.output
    assert result.output.count("attempt 1: generated") == 3


def test_every_setting_is_set_by_name_and_described(tmp_path: Path, scripts: Scripts) -> None:
    image = tmp_path / "in.png"
    Picture.white((16, 16)).image.save(image)
    chosen = RunSettings(
        max_attempts=2, accept_at=0.25, keep="last", source="anchor", most_images=3, seed=7,
        seed_rule="every step", on_failure="stop", judge_last=False, candidates=2, time_budget=99.5,
        max_draws=20, derive_checklist=True, pause="at rejected steps",
    )  # fmt: skip
    assert all(getattr(chosen, name) != field.default for name, field in RunSettings.model_fields.items()), (
        "this test has to set every field"
    )
    options: list[object] = []
    for name, value in chosen.model_dump().items():
        options += ["--set", f"{name}={value}"]
    out = tmp_path / "out"
    call("run", "x", "--out", out, "--image", image, *options, *scripts.story(True, True, True))
    assert load_trajectory(out).settings == chosen
    words = " ".join(call("run", "--help=all").output.split())
    for name, field in RunSettings.model_fields.items():
        assert field.description and f"{name}: " in words and " ".join(field.description.split()) in words


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--generator", "crayons"], "crayons"),
        (["--generator", "fake", "--set", "generator.strength=0.5"], "strength"),
        (["--set", "time_budget=0"], "time_budget"),
        (["--set", "source=anchor"], "anchor"),
        (["--source", "anchor"], "--set source=VALUE"),
        (["--set", "keep=worst"], "best | last"),
        (["--plan", "missing.json"], "missing.json"),
        (["--device", "cpu"], "'device'"),
        (["--image", "missing.png"], "missing.png"),
        (["--nonsense"], "nonsense"),
    ],
)
def test_usage_errors(tmp_path: Path, scripts: Scripts, arguments: list[str], expected: str) -> None:
    result = call("run", "x", "--out", tmp_path / "out", *scripts.story(True, True, True), *arguments)
    assert result.exit_code == 2, result.output
    assert expected in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_an_error_gives_exit_code_1_and_one_line(tmp_path: Path, scripts: Scripts) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    command = ["run", "x", "--out", tmp_path / "out", *scripts.story(True, True, True)]
    result = call(*command)
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1
    assert "Traceback" in call("--debug", *command).output
    babble = call(
        "run", "x", "--out", tmp_path / "other", *scripts.planner("blah", "blah"), "--critic", "none"
    )
    assert babble.exit_code in (1, 2)


def test_another_request_needs_another_folder(tmp_path: Path, scripts: Scripts) -> None:
    story = scripts.story(True, True, True)
    call("run", "one", "--out", tmp_path / "out", *story)
    result = call("run", "two", "--out", tmp_path / "out", *story)
    assert result.exit_code == 1
    assert "Choose another folder" in result.output


def test_json_is_one_object_per_line(tmp_path: Path, scripts: Scripts) -> None:
    process = start("run", "x", "--out", tmp_path / "out", "--json", *scripts.story(False, True, True, True))
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    lines = [json.loads(line) for line in output.splitlines()]
    assert [line["event"] for line in lines][:5] == [
        "plan_ready",
        "attempt_started",
        "attempt_drawn",
        "attempt_judged",
        "attempt_started",
    ]
    assert lines[-2]["event"] == "finished"
    result = lines[-1]
    assert (result["event"], result["exit_code"]) == ("result", 0)
    assert all(Path(path).is_file() for path in [*result["pictures"], result["page"]])
    drawn = lines[2]["record"]["image"]
    assert (tmp_path / "out" / "pictures" / f"{drawn}.png").is_file()


def test_a_pipe_gets_plain_unwrapped_lines(tmp_path: Path, scripts: Scripts) -> None:
    out = tmp_path / ("a-rather-long-name-" * 6)
    process = start("run", "x", "--out", out, *scripts.story(True, True, True))
    output, _ = process.communicate(timeout=60)
    assert "\x1b" not in output
    assert f"Page: {out / 'index.html'}" in output.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT to a child is POSIX")
def test_a_run_stopped_with_ctrl_c_can_be_resumed(tmp_path: Path, scripts: Scripts) -> None:
    out = tmp_path / "out"
    story = [*scripts.story(*[False] * 300), "--generator", "fake:1024", "--max-attempts", "100"]
    process = start("run", "x", "--out", out, *story)
    assert process.stdout
    for line in process.stdout:
        if "attempt 3" in line:
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "run the same command again" in errors
    assert f"--out {out}" in errors
    assert "Traceback" not in errors
    assert not (out / "in-use.lock").exists()
    partial = load_trajectory(out)
    assert partial.results[-1].stop_reason.value == "cancelled"
    finished = {path.name for path in (out / "attempts").iterdir()}
    assert len(finished) >= 3
    stamps = {name: (out / "attempts" / name).stat().st_mtime_ns for name in finished}
    again = call("run", "x", "--out", out, *story[:-1], 4)
    assert again.exit_code == 3, again.output
    assert again.output.count(", cached") >= 3
    assert stamps == {name: (out / "attempts" / name).stat().st_mtime_ns for name in finished}


def test_a_plan_with_another_step_count_warns_or_raises(tmp_path: Path, scripts: Scripts) -> None:
    options = [*scripts.planner(write_plan(STORY), write_plan(STORY)), "--step-count", "3"]
    result = call("plan", "a house", *options, "--json")
    assert "Warning: 3 steps were requested, but the planner wrote 4 and then 4" in result.stderr
    assert json.loads(result.stdout)["warning"].endswith("The plan of 4 is used.")
    drawn = call(
        "run", "a house", "--out", tmp_path / "out", *options, "--critic", "none", "--generator", "fake:16"
    )
    assert drawn.exit_code == 0 and "Warning: 3 steps" in drawn.stderr
    rejected = call("plan", "a house", *options, "--set", "exact_count=true")
    assert rejected.exit_code == 1 and "3 steps were requested" in rejected.stderr


def test_a_style_precedes_every_prompt_also_of_a_given_plan(tmp_path: Path, scripts: Scripts) -> None:
    drawing = ["--critic", "none", "--generator", "fake:16", "--out", tmp_path / "out"]
    planner = scripts.planner(write_plan(STORY))
    first = call("run", "a house", *drawing, *planner, "--style", "Ink")
    assert first.exit_code == 0, first.output
    again = call("run", "a house", *drawing, *planner, "--style", "Ink")
    assert "(from the run folder)" in again.output
    plan = tmp_path / "plan.json"
    plan.write_text(STORY.model_dump_json(), encoding="utf-8")
    for style, given in ("Oil", ["--plan", plan]), ("Chalk", []):
        assert call("run", "a house", *drawing, *given, "--style", style).exit_code == 0
        trajectory = load_trajectory(tmp_path / "out")
        assert trajectory.results[0].attempts[0].prompt == f"{style}. a house"
        assert trajectory.plan.style == style


def test_a_planner_seed_samples_above_temperature_zero(scripts: Scripts) -> None:
    from interleave_thinker.cli.models import LocalOptions, Opener, PlannerOptions

    spec = scripts.planner(write_plan(STORY))[1]
    planner = Opener(LocalOptions()).planner(PlannerOptions(planner=spec, seed=4))
    assert (planner.settings.seed, planner.settings.temperature) == (4, 0.7)
    plain = Opener(LocalOptions()).planner(PlannerOptions(planner=spec))
    assert plain.settings.temperature == 0 and plain.identity != planner.identity
