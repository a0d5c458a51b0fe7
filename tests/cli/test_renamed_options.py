"""Renamed options and recipe keys are errors that give the new name."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli_calls import call

from interleave_thinker.cli.lazy_group import COMMANDS, LazyCommand
from interleave_thinker.cli.removed import RENAMED
from interleave_thinker.training.trainer.renamed_settings import RENAMED as RENAMED_SETTINGS


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        (("judge",), "--levers=speed=on", "--levers was renamed to --engine."),
        (("judge",), "--hold", "--hold was renamed to --constrained-decoding."),
        (("data", "prompts"), "--count", "--count was renamed to --rows."),
        (("data", "from-runs"), "--no-keep-words", "--no-keep-words was renamed to --no-keep-labelled."),
        (("train", "critic-sft"), "--rate", "--rate was renamed to --learning-rate."),
        (("train", "critic-sft"), "--save-every", "--save-every was renamed to --save-steps."),
        (("train", "critic-grpo"), "--clip-high", "--clip-high was renamed to --epsilon-high."),
        (("train", "critic-sft"), "--no-ordered", "--no-ordered was renamed to --train-sampling-strategy."),
    ],
)
def test_an_old_option_is_an_error_with_its_new_name(command: tuple[str, ...], old: str, new: str) -> None:
    result = call(*command, old, "1")
    assert result.exit_code == 2 and new in result.stderr


def test_an_option_that_the_command_never_had_is_unknown() -> None:
    result = call("run", "--clip-high", "1", "a story")
    assert result.exit_code == 2 and "No such option" in result.stderr and "epsilon" not in result.stderr


@pytest.mark.parametrize(
    ("stage", "line", "new"),
    [
        ("critic-sft", "rate: 0.1", "'learning_rate'"),
        ("critic-grpo", "vllm: off", "'use_vllm'"),
    ],
)
def test_a_recipe_with_an_old_key_is_an_error_with_its_new_name(
    stage: str, line: str, new: str, tmp_path: Path
) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(f"{stage}:\n  {line}\n")
    for asked in (("train", stage, "--config", recipe), ("train", "doctor", "--config", recipe)):
        result = call(*asked)
        assert result.exit_code == 2 and f"It is now called {new}." in result.stderr, asked


def test_every_new_name_is_an_option_of_a_command() -> None:
    known = {name.removeprefix("--no-").removeprefix("--") for name in _options(_commands())}
    assert {new.replace("_", "-") for new in RENAMED.values()} <= known
    assert RENAMED_SETTINGS.items() <= RENAMED.items()


def _commands() -> list:
    return [LazyCommand(name, *COMMANDS[name]).load() for name in ("judge", "data", "train", "evaluate")]


def _options(commands: list) -> list[str]:
    found = []
    for command in commands:
        found += [name for option in command.params for name in [*option.opts, *option.secondary_opts]]
        found += _options(list(getattr(command, "commands", {}).values()))
    return found
