"""`run --as`: the settings of the released code or the paper, and options that replace them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_calls import Scripts, call

from interleave_thinker import Pipeline, load_trajectory, published_settings
from interleave_thinker.backend.core.prompts.prompt_set import WORDINGS
from interleave_thinker.backend.core.types import Plan, Step, StepSettings
from interleave_thinker.backend.pipeline.as_published import (
    BENCHMARK_SETTINGS,
    STORY_SETTINGS,
    not_as_published,
    with_published_size,
)
from interleave_thinker.cli.commands.run import published_models
from interleave_thinker.cli.models import CriticOptions, GeneratorOptions, PlannerOptions
from interleave_thinker.research.evaluation.benchmark_run import BenchmarkOptions


@pytest.fixture
def rejected(tmp_path: Path) -> list[str]:
    """Return the models of a story that is never accepted."""
    return Scripts(tmp_path).story(*[False] * 20)


def test_released_has_three_attempts_with_one_seed(tmp_path: Path, rejected: list[str]) -> None:
    out = tmp_path / "out"
    result = call("run", "a house", "--as", "released", "--out", out, *rejected)
    assert result.exit_code == 3, result.output
    assert "Settings as in the released code: max_attempts 3, keep last," in result.output
    trajectory = load_trajectory(out)
    assert trajectory.settings == published_settings("released")
    attempts = trajectory.results[0].attempts
    assert len(attempts) == 3 and len({one.seed for one in attempts}) == 1
    assert trajectory.results[0].chosen == 2
    assert all(one.verdict is not None for one in attempts)


SAMPLED = ('"temperature":0.7', '"top_p":0.8', '"top_k":20', '"max_tokens":4096', '"max_pixels":16777216')


def test_released_has_the_published_seed_numbers_and_decoding(tmp_path: Path, rejected: list[str]) -> None:
    command = ["run", "a house", "--as", "released", "--out", tmp_path / "out", *rejected]
    result = call(*command, "--set", "critic.top_k=5")
    told = load_trajectory(tmp_path / "out")
    assert [{one.seed for one in step.attempts} for step in told.results] == [{0}, set(), {2000}, {3000}]
    assert all(setting in told.identities.planner for setting in SAMPLED)
    assert '"top_k":5' in told.identities.critic and '"top_p":0.8' in told.identities.critic
    assert "planner.top_k 20" in result.stdout and "critic.top_k" not in result.stdout
    assert "The planner and the critic are not asked with the authors' prompts" in result.stderr
    image = told.results[0].image
    assert "size 1024x1024" in result.stdout and image is not None and image.size == (1024, 1024)


def test_released_sets_the_size_of_a_generator_that_has_one() -> None:
    agents = PlannerOptions(), CriticOptions()
    for size, expected in ((None, "1024x1024"), ("512x512", "512x512")):
        drawing = GeneratorOptions(generator="diffusers:folder", size=size)
        assert published_models("released", *agents, drawing)[2].size == expected
    assert published_models("paper", *agents, drawing) == (*agents, drawing)


def test_released_sets_the_size_of_steps_without_one() -> None:
    own = Step(number=1, prompt="a", settings=StepSettings(size="512x512"))
    plan = Plan(steps=(own, Step(number=2, prompt="b"), Step(number=3, auxiliary_text="c")))
    sizes = [step.settings.size for step in with_published_size("released", plan).steps]
    assert sizes == ["512x512", "1024x1024", None]
    assert with_published_size("paper", plan) == plan


def test_what_is_not_as_published_is_said() -> None:
    (published,) = WORDINGS
    assert not_as_published("released", {"planner": published, "critic": published}) == []
    (line,) = not_as_published("released", {"planner": published, "critic": "other"})
    assert line.startswith("The critic is not asked with the authors' prompts") and "prompts import" in line
    (size,) = not_as_published("released", {}, has_size=False)
    assert "1024x1024" in size and not not_as_published("paper", {}, has_size=False)


def test_a_pipeline_has_the_same_values(tmp_path: Path, rejected: list[str]) -> None:
    planner, critic, generator = rejected[1::2]
    told = Pipeline(planner, generator, critic, published="released")("a house").trajectory
    assert told.settings == published_settings("released")
    assert all(
        setting in told.identities.planner and setting in told.identities.critic for setting in SAMPLED
    )


def test_paper_has_five_attempts_and_an_unjudged_last(tmp_path: Path, rejected: list[str]) -> None:
    out = tmp_path / "out"
    assert call("run", "a house", "--as", "paper", "--out", out, *rejected).exit_code == 3
    trajectory = load_trajectory(out)
    attempts = trajectory.results[0].attempts
    assert len(attempts) == len({one.seed for one in attempts}) == 5
    assert [one.verdict is not None for one in attempts] == [True] * 4 + [False]
    assert trajectory.results[0].chosen == 4


def test_an_option_next_to_it_wins_and_the_run_says_so(tmp_path: Path, rejected: list[str]) -> None:
    command = ["run", "a house", "--as", "paper", "--out", tmp_path / "out", *rejected]
    result = call(*command, "--max-attempts", 2, "--set", "judge_last=true", "--seed", 7)
    (line,) = [one for one in result.stdout.splitlines() if one.startswith("Not as in")]
    assert "as you asked: max_attempts 2, judge_last true (not max_attempts 5, judge_last false)." in line
    assert load_trajectory(tmp_path / "out").settings == published_settings(
        "paper", max_attempts=2, judge_last=True, seed=7
    )
    events = [
        json.loads(one) for one in call(*command, "--set", "candidates=2", "--json").stdout.splitlines()
    ]
    assert events[0]["event"] == "published_settings" and events[0]["replaced"] == {"candidates": 2}
    assert "Not as in" not in call(*command, "--set", "keep=last").stdout


def test_a_resumed_run_gets_all_settings_of_the_published_system(tmp_path: Path, rejected: list[str]) -> None:
    out = tmp_path / "out"
    other = ["--set", "candidates=2", "--set", "accept_at=0.5", "--set", "seed_rule=every step", "--seed", 3]
    call("run", "a house", "--out", out, *rejected, *other)
    result = call("run", "--as", "paper", "--out", out, *rejected)
    assert "accept_at not set (was 0.5)" in result.output
    assert load_trajectory(out).settings == published_settings("paper", seed=3)


def test_benchmark_presets_are_the_same_values() -> None:
    for name, values in BENCHMARK_SETTINGS.items():
        settings = BenchmarkOptions(preset=name).run_settings()
        assert {key: getattr(settings, key) for key in values} == values
        story = STORY_SETTINGS[name]
        assert {key: story[key] for key in ("max_attempts", "keep")} == {
            key: values[key] for key in ("max_attempts", "keep")
        }
