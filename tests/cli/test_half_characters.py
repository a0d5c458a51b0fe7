"""Runs with a server that splits characters in two, and arguments that are not UTF-8."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.cli_calls import call

RUN = Path(__file__).parents[1] / "data" / "run"


def test_a_prompt_that_is_not_valid_text_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(RUN, folder)
    result = call("redraw", folder, "--step", 1, "--prompt", "caf\udce9")
    assert result.exit_code == 2 and "--prompt is not valid Unicode (character 4)" in result.output
