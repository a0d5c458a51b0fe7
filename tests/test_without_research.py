"""The package without its folder `research/`: the library, the nodes and the other commands work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interleave_thinker.backend.core.machine.registry import COMMANDS, plugin_names

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = {"research", ".git", "build"}
NODES = (
    "import sys, interleave_thinker; sys.path.append(sys.argv[1]); "
    "from reference_pages import host_stand_in; host_stand_in.install(); "
    "from interleave_thinker.nodes.pack import NODES; print(len([node.define_schema() for node in NODES]))"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the package, as links, but without `research/`."""
    made = tmp_path_factory.mktemp("without")
    package = made / "interleave_thinker"
    package.mkdir()
    for entry in ROOT.iterdir():
        if entry.name not in LEFT_OUT:
            (package / entry.name).symlink_to(entry)
    return made


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True, text=True, timeout=280,
    )  # fmt: skip


@pytest.mark.parametrize("group", ["", "data", "evaluate", "train"])
def test_help_lists_no_command_of_research(folder: Path, group: str) -> None:
    named = [name.removeprefix(f"{group}.") for name in plugin_names(COMMANDS) if name.startswith(group)]
    assert "benchmark" in plugin_names(COMMANDS) and "data.sequences" in plugin_names(COMMANDS)
    done = python(folder, "-m", "interleave_thinker", *filter(None, [group]), "--help")
    assert done.returncode == 0, done.stderr
    listed = [line.split()[0] for line in done.stdout.partition("Commands:")[2].splitlines() if line.strip()]
    assert listed and not set(listed) & set(named)


def test_a_story_is_generated(folder: Path) -> None:
    (folder / "plan.json").write_text('{"steps": [{"number": 1, "prompt": "a boat"}]}')
    line = ["run", "a boat", "--plan", "plan.json", "--generator", "fake", "--critic", "none", "--out", "run"]
    done = python(folder, "-m", "interleave_thinker", *line)
    assert done.returncode == 0 and (folder / "run" / "trajectory.json").is_file(), done.stderr


@pytest.mark.stress
def test_the_demo_runs(folder: Path) -> None:
    done = python(folder, "-m", "interleave_thinker", "demo", "--out", "story")
    assert done.returncode == 0, done.stderr
    assert (folder / "story" / "index.html").is_file()


def test_every_node_is_imported(folder: Path) -> None:
    done = python(folder, "-c", NODES, str(ROOT / "docs"))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


def test_the_judge_of_the_tiny_world_is_gone_by_name(folder: Path) -> None:
    code = "from interleave_thinker.cli.train.grpo import opened_judge; opened_judge('tinyworld')"
    done = python(folder, "-c", code)
    assert "SettingsError" in done.stderr and "research" not in done.stderr
