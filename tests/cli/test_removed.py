"""Commands, options and recipe keys of an earlier release are errors that name it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli_calls import call
from support.made_runs import made_run
from support.small_grpo import make_data

from interleave_thinker.cli.removed import LAST_RELEASE, REMOVED, REMOVED_NAMES
from interleave_thinker.training.recipes.recipe import STAGES

GONE = [(command, name) for command, names in REMOVED.items() for name in names]


@pytest.mark.parametrize(("command", "name"), GONE)
def test_removed_names_tell_the_last_release_that_had_them(command: str, name: str) -> None:
    result = call(*command.split(), name)
    assert result.exit_code == 2 and f"available up to {LAST_RELEASE}" in result.stderr, result.stderr
    assert f"{command} {name}".strip() in result.stderr


@pytest.mark.parametrize("name", REMOVED_NAMES["scorer"])
def test_a_removed_scorer_of_a_command_or_a_recipe_names_the_release(name: str, tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", [(9, True, None)])
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(f"critic-grpo:\n  generator: tinyworld\n  scorer: {name}:x\n")
    train = ("train", "critic-grpo", "--model", "tinyworld:critic", "--config", recipe)
    for asked in (
        ("evaluate", "scorer", run, "--scorer", f"{name}[device=cpu]:x"),
        ("run", "A boat.", "--out", tmp_path / "out", "--set", f"scorer={name}:x"),
        (*train, "--data", make_data(tmp_path), "--out", tmp_path / "trained"),
    ):
        result = call(*asked)
        assert result.exit_code == 2 and f"available up to {LAST_RELEASE}" in result.stderr, result.stderr


def test_an_unknown_name_is_a_usage_error() -> None:
    for asked in (("train", "critic-xyz"), ("train", "critic-sft", "--xyz")):
        result = call(*asked)
        assert result.exit_code == 2 and "No such" in result.stderr


@pytest.mark.parametrize(("command", "name"), [one for one in GONE if one[0].rpartition(" ")[2] in STAGES])
def test_a_recipe_key_is_treated_like_its_option(command: str, name: str, tmp_path: Path) -> None:
    stage = command.split()[-1]
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(f"{stage}:\n  {name.removeprefix('--').replace('-', '_')}: 1\n")
    result = call(*command.split(), "--config", recipe)
    assert result.exit_code == 2 and f"available up to {LAST_RELEASE}" in result.stderr, result.stderr
