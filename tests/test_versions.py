"""The version, and the oldest version of every library, are the same wherever they are written."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from support.cli_calls import python

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.machine import libraries
from interleave_thinker.backend.models.generators.pipelines.folder import check_library
from interleave_thinker.nodes.inputs.validation import REASONS

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def bounds() -> dict[str, str]:
    """Return the oldest version of every library in pyproject, including extras."""
    parts = PROJECT.partition("dependencies = [")[2].partition("[project.scripts]")[0]
    named = re.findall(r'"([A-Za-z0-9_-]+)(?:\[[^"]*\])?([^"]*)"', parts)
    assert all(bound.startswith(">=") for name, bound in named if name != "interleave-thinker"), named
    other = "<" if sys.version_info >= (3, 11) else ">="
    here = [(name, bound) for name, bound in named if f"python_version {other}" not in bound]
    return {name: bound.removeprefix(">=").partition(";")[0] for name, bound in here}


def test_a_node_pack_asks_for_the_versions_that_the_package_asks_for() -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    asked = dict(line.split(">=") for line in lines if line and not line.startswith("#"))
    assert asked and asked.items() <= bounds().items()
    assert REASONS.keys() <= bounds().keys()


def test_the_oldest_versions_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert {name: libraries.least(name) for name in bounds() if name != "interleave-thinker"} == {
        name: bound for name, bound in bounds().items() if name != "interleave-thinker"
    }
    monkeypatch.setattr(libraries, "PROJECT", tmp_path / "pyproject.toml")
    monkeypatch.setattr(
        libraries,
        "requires",
        lambda name: [
            'torch>=2.5; python_version < "3.9"',
            'trl[vllm]>=1.14; python_version >= "3.10" and extra == "vllm"',
            'av>=16.0; extra == "video"',
        ],
    )
    read = libraries._bounds.__wrapped__()
    assert read == {"trl": "1.14", "av": "16.0"}


@pytest.mark.parametrize(
    ("found", "too_old"),
    [("4.57.1", True), ("5", False), ("5.0.0.dev0", False), ("5.0.0", False), ("10.0", False), ("", True)],
)
def test_versions_are_compared_by_their_numbers(found: str, too_old: bool) -> None:
    assert libraries.is_too_old("transformers", found) is too_old
    assert not libraries.is_too_old("a-library-without-a-bound", found)


def test_the_version_is_only_in_pyproject(tmp_path: Path) -> None:
    (version,) = re.findall(r'^version = "(.+)"$', PROJECT, re.MULTILINE)
    code = (
        "import importlib.util, sys; spec = importlib.util.spec_from_file_location('pack', sys.argv[1]); "
        "pack = importlib.util.module_from_spec(spec); spec.loader.exec_module(pack); print(pack.__version__)"
    )
    done = python(code, ROOT / "__init__.py", cwd=tmp_path)
    assert done.stdout.strip() == version, done.stderr
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{version}]" in changes and "## [Unreleased]" in changes


def test_python_versions_agree() -> None:
    (oldest,) = re.findall(r'^requires-python = ">=(.+)"$', PROJECT, re.MULTILINE)
    assert f'pythonVersion = "{oldest}"' in PROJECT
    assert f'target-version = "py{oldest.replace(".", "")}"' in PROJECT
    assert f"Python :: {oldest}" in PROJECT
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    assert f'"{oldest}"' in workflow


def test_a_diffusers_that_loads_weak_loras_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffusers.__version__", "0.39.0")
    with pytest.raises(SettingsError, match=r"quarter of their strength.*0\.40 or newer"):
        check_library()
