"""Resuming the run in a folder: without a request, with other settings, with other models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_calls import Scripts, call
from support.small_agents import STORY

from interleave_thinker import Attempt, Picture, RunSettings, Verdict, load_trajectory
from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.story.agents.plan_constraints import PlanConstraints, constraints_in
from interleave_thinker.cli.progress import attempt_line


@pytest.fixture
def story(tmp_path: Path) -> list[str]:
    return Scripts(tmp_path).story(False, True, True, True)


def test_a_run_without_a_request_continues_the_recorded_one(tmp_path: Path, story: list[str]) -> None:
    out, image = tmp_path / "out", tmp_path / "in.png"
    Picture.white((16, 16)).image.save(image)
    first = ["run", "a house", "--image", image, "--style", "Ink", "--set", "keep=last", "--seed", 3]
    assert call(*first, "--out", out, *story).exit_code == 0
    before = load_trajectory(out)
    again = call("run", "--out", out, *story)
    assert again.exit_code == 0, again.output
    assert "(from the run folder)" in again.output and again.output.count(", cached") == 4
    assert "Changed since" not in again.output
    assert load_trajectory(out) == before and before.plan.style == "Ink"
    other = call("run", "--out", out, *story, "--seed", 4)
    assert "Changed since the last run: seed 4 (was 3)." in other.output
    assert load_trajectory(out).settings == before.settings.model_copy(update={"seed": 4})


def test_a_run_without_a_request_needs_a_run_in_the_folder(tmp_path: Path, story: list[str]) -> None:
    result = call("run", "--out", tmp_path / "out", *story)
    assert result.exit_code == 2 and "does not contain a run to resume" in result.stderr
    assert not (tmp_path / "out").exists()
    call("run", "x", "--out", tmp_path / "out", *story)
    image = call("run", "--out", tmp_path / "out", "--image", tmp_path / "a.png", *story)
    assert image.exit_code == 2 and "--image needs a request" in image.stderr


def test_a_run_of_other_models_is_not_resumed_with_the_default_ones(tmp_path: Path, story: list[str]) -> None:
    out = tmp_path / "out"
    call("run", "a house", "--out", out, *story)
    before = load_trajectory(out)
    result = call("run", "--out", out, *story[:4])
    assert result.exit_code == 2
    assert "with the default generator" in result.stderr and "Add --generator" in result.stderr
    assert load_trajectory(out) == before


def test_changed_settings_give_one_line(tmp_path: Path, story: list[str]) -> None:
    command = ["run", "a house", "--out", tmp_path / "out", *story]
    call(*command)
    result = call(*command, "--max-attempts", 1, "--set", "accept_at=0.5")
    (line,) = [one for one in result.stdout.splitlines() if one.startswith("Changed since")]
    assert "max_attempts 1 (was 5), accept_at 0.5 (was not set)." in line
    events = [json.loads(one) for one in call(*command, "--json").stdout.splitlines()]
    assert events[0] == {
        "event": "settings_changed",
        "settings": {"max_attempts": {"before": 1, "now": 5}, "accept_at": {"before": 0.5, "now": None}},
    }
    assert "Changed since" not in call(*command).output


def test_the_constraints_of_a_plan_are_in_the_identity_of_its_planner() -> None:
    constraints = PlanConstraints(step_count=4, style='Ink |{"a')
    identity = f'agent |{{"max_tokens":1}}|{constraints.model_dump_json(exclude_defaults=True)}'
    assert constraints_in(identity) == constraints
    assert constraints_in("agent") == PlanConstraints()


@pytest.mark.parametrize(
    ("verdict", "accept_at", "expected"),
    [
        (Verdict(success=True, probability=0.9999937), 1.0, "rejected, P(success) 99.99 % of 100 %"),
        (Verdict(success=False, probability=0.3), 0.2, "accepted, P(success) 30 %"),
        (Verdict(success=True), 0.9, "accepted"),
        (Verdict(success=None), 0.9, "not understood"),
        (Verdict(success=True, forced=True), None, "accepted (readable only in the forced form)"),
    ],
)
def test_a_line_gives_the_outcome(verdict: Verdict, accept_at: float | None, expected: str) -> None:
    attempt = Attempt(prompt="a", seed=1, image=Picture.white((8, 8)), verdict=verdict)
    settings = RunSettings(accept_at=accept_at)
    assert attempt_line(0, attempt, settings, True) == f"attempt 1: {expected}, cached"


def test_an_image_that_the_critic_accepts_and_the_threshold_rejects(tmp_path: Path) -> None:
    request = "Draw a sea page with a red boat in the middle."
    result = call("run", request, "--out", tmp_path / "out", "--set", "accept_at=1", "--max-attempts", 2)
    assert result.exit_code == 3
    assert "attempt 1: rejected, P(success) " in result.stdout


def test_a_sentence_omitted_by_the_tiny_planner_gives_a_warning() -> None:
    request = "Draw a sea page with a red boat in the middle. Make it blue. Add a bird. Change it to night."
    assert 'Warning: The plan leaves out: "Add a bird".' in call("plan", request).stderr
    short = "Draw a sea page with a red boat in the middle. Then make it blue."
    assert "describes 2 steps, but 4 were requested" in call("plan", short, "--step-count", 4).stderr


def test_a_request_makes_the_command_line_settings_apply(tmp_path: Path) -> None:
    planner = Scripts(tmp_path).planner(write_plan(STORY))
    command = ["run", "x", "--out", tmp_path / "out", *planner, "--critic", "none", "--generator", "fake:16"]
    call(*command, "--seed", 7)
    call(*command)
    assert load_trajectory(tmp_path / "out").settings == RunSettings()
