"""`run --set generator.enhancer=...`: an agent rewrites the prompts for the image model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_calls import call
from support.small_agents import STORY

from interleave_thinker.backend.story.loop.replay import load_trajectory

LONGER = ["A large red house.", "Add a yellow sun.", "Add a blue boat."]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(STORY.model_dump_json())
    return path


def script(tmp_path: Path, *replies: str) -> str:
    path = tmp_path / "replies.json"
    path.write_text(json.dumps(replies))
    return f"scripted:{path}"


def enhanced_in(folder: Path) -> list[str]:
    attempts = [one for result in load_trajectory(folder).results for one in result.attempts]
    return [one.enhancement.prompt for one in attempts if one.enhancement]


def test_a_run_with_an_enhancer_and_its_resume(tmp_path: Path, plan: Path) -> None:
    out, edit = tmp_path / "out", tmp_path / "edit.txt"
    edit.write_text("Rewrite this edit: {prompt}")
    line = [
        "run", "a story", "--out", out, "--plan", plan, "--critic", "none", "--generator", "fake:16",
        "--set", f"generator.enhancer={script(tmp_path, *LONGER)}",
        "--set", f"generator.enhancer_edit_prompt={edit}",
    ]  # fmt: skip
    result = call(*line)
    assert result.exit_code == 0, result.output
    assert enhanced_in(out) == LONGER and "enhanced prompt: A large red house." in result.output
    assert call(*line).exit_code == 0, "the script has no more replies, so nothing was asked again"
    edit.write_text("Another template: {prompt}")
    assert call(*line).exit_code == 0 and enhanced_in(out) == LONGER, "another template asks again"
    # Without the enhancer's options the last run cannot be resumed silently with another generator.
    resumed = call("run", "--out", out, "--critic", "none", "--plan", plan)
    assert resumed.exit_code != 0 and "--generator" in str(resumed.output) + str(resumed.exception)


def test_an_unusable_reply_is_a_warning(tmp_path: Path, plan: Path) -> None:
    out = tmp_path / "out"
    result = call(
        "run", "a story", "--out", out, "--plan", plan, "--critic", "none", "--generator", "fake:16",
        "--set", f"generator.enhancer={script(tmp_path, '', '', *LONGER[1:])}",
    )  # fmt: skip
    assert result.exit_code == 0 and "could not be used twice" in result.output
    assert enhanced_in(out) == ["a house", *LONGER[1:]]


def test_options_of_an_enhancer_need_one(tmp_path: Path, plan: Path) -> None:
    result = call(
        "run", "a story", "--out", tmp_path / "out", "--plan", plan, "--critic", "none",
        "--generator", "fake:16", "--set", "generator.enhancer_max_tokens=100",
    )  # fmt: skip
    assert result.exit_code != 0 and "generator.enhancer=" in str(result.output) + str(result.exception)
