"""The version bounds of the training libraries in the package are those that are checked at run time."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.machine import libraries
from interleave_thinker.backend.core.machine.libraries import least

TRL = least("trl")
PROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"


def test_the_checked_versions_are_those_that_pip_installs() -> None:
    extras = dict(re.findall(r"^(\w+) = \[(.*)\]$", PROJECT.read_text(encoding="utf-8"), re.MULTILINE))
    for name in (*libraries.TRAINERS, "peft"):
        assert least(name), name
        assert name == "transformers" or f'"{name}>={least(name)}' in extras["training"]
    assert f'"trl[vllm]>={least("trl")}' in extras["vllm"]


@pytest.mark.parametrize(
    ("here", "taken"),
    [("1.13.0", False), ("1.9.1", False), (f"{TRL}.0", True), (f"{TRL}.0.dev0", True), ("2.0", True)],
)
def test_a_faulty_trl_is_rejected(here: str, taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "missing", lambda names: [])
    monkeypatch.setattr(libraries, "version", lambda name: here if name == "trl" else metadata.version(name))
    if taken:
        libraries.require("trl", "pydantic")
        return
    with pytest.raises(SettingsError, match=rf"too old: trl {here} \({TRL} or newer\).*pip install -U"):
        libraries.require("trl", "pydantic")
