"""One version, and one oldest version of every library, wherever they are written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def bounds() -> dict[str, str]:
    """Oldest version of every library that pyproject names, extras included."""
    parts = PROJECT.partition("dependencies = [")[2].partition("[project.scripts]")[0]
    named = re.findall(r'"([A-Za-z0-9_-]+)(?:\[[^"]*\])?([^"]*)"', parts)
    assert all(bound.startswith(">=") for name, bound in named if name != "interleave-thinker"), named
    return {name: bound.removeprefix(">=") for name, bound in named}


def test_a_node_pack_asks_for_the_versions_that_the_package_asks_for() -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    asked = dict(line.split(">=") for line in lines if line and not line.startswith("#"))
    assert asked and asked.items() <= bounds().items()


def test_nodes_name_the_same_oldest_versions() -> None:
    """Read as text: the module's place in the nodes is not this test's business, its table is."""
    (table,) = {
        found
        for path in (ROOT / "nodes").rglob("*.py")
        for found in re.findall(
            r"^OLDEST = \{\n(.*?)^\}", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
    }
    oldest = {
        name: ".".join(re.findall(r"\d+", numbers))
        for name, numbers in re.findall(r'"(.+?)": \((.+?)\)', table)
    }
    assert oldest and oldest.items() <= bounds().items()


def test_the_version_stands_in_pyproject_alone(tmp_path: Path) -> None:
    (version,) = re.findall(r'^version = "(.+)"$', PROJECT, re.MULTILINE)
    code = (
        "import importlib.util, sys; spec = importlib.util.spec_from_file_location('pack', sys.argv[1]); "
        "pack = importlib.util.module_from_spec(spec); spec.loader.exec_module(pack); print(pack.__version__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT / "__init__.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == version
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{version}]" in changes and "## [Unreleased]" in changes


def test_python_versions_agree() -> None:
    (oldest,) = re.findall(r'^requires-python = ">=(.+)"$', PROJECT, re.MULTILINE)
    assert f'pythonVersion = "{oldest}"' in PROJECT
    assert f'target-version = "py{oldest.replace(".", "")}"' in PROJECT
    assert f"Python :: {oldest}" in PROJECT
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    assert f'"{oldest}"' in workflow
