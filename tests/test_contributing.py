"""The walk-through of CONTRIBUTING.md works as written.

Its blocks are applied to a copy of the package, and its commands are run there.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())
BLOCK = re.compile(r"^```(?P<kind>\w+)(?: (?P<path>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
PACKAGE = (
    "__init__.py", "pyproject.toml", "backend", "cli", "training", "research", "service", "tinyworld",
    "webapp", "tests",
)  # fmt: skip


@dataclass(frozen=True)
class Block:
    kind: str
    path: str
    text: str


BLOCKS = [
    Block(found["kind"], found["path"] or "", found["text"])
    for found in BLOCK.finditer((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
]


def in_tree(root: Path, path: str) -> Path:
    """Return the document's file wherever it is in its layer; its name is unique in the folders above it."""
    if (root / path).is_file():
        return root / path
    top, name = path.split("/")[0], path.rpartition("/")[2]
    (found,) = (root / top).rglob(name)
    return found


def apply(block: Block, root: Path) -> None:
    """Apply one block: a new file, or lines added next to lines that the file contains exactly once."""
    if block.kind == "python":
        new = root / block.path
        assert new.parent.is_dir() and not new.exists(), f"{block.path} is where a new file goes"
        new.write_text(block.text, encoding="utf-8")
        return
    lines = block.text.splitlines(keepends=True)
    assert all(line[0] in " +" for line in lines if line.strip()), "a diff of this document only adds"
    before = "".join(line[1:] for line in lines if line[0] == " ")
    after = "".join(line[1:] for line in lines)
    path = in_tree(root, block.path)
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{block.path} has these lines once: {before}"
    path.write_text(text.replace(before, after), encoding="utf-8")


IN_A_COPY = """
import sys
sys.path.insert(0, "tests")
import conftest, pytest
from interleave_thinker.cli import main
code = pytest.main([sys.argv[1], "-p", "no:cacheprovider", "-n", "0", *sys.argv[2].split()])
assert code == 0, code
sys.argv[1:] = sys.argv[3:]
main()
"""
"""Runs the tests and the command of the document in one process, in a copy that is not installed."""


def commands() -> tuple[list[str], list[str]]:
    """Return the arguments of pytest and of the command in the document."""
    lines = [line for block in BLOCKS if block.kind == "console" for line in block.text.splitlines()]
    (pytest_, *tests), (command, *arguments) = (shlex.split(line.removeprefix("$ ")) for line in lines)
    assert (pytest_, command) == ("pytest", "interleave-thinker")
    return tests, arguments


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the package with the walk-through's blocks applied."""
    root = tmp_path_factory.mktemp("contributing") / "pack"
    root.mkdir()
    for name in PACKAGE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "host"))
        else:
            shutil.copy(ROOT / name, root / name)
    for block in BLOCKS:
        if block.path:
            apply(block, root)
    return root


def test_the_contribution_tutorial_is_one_file_and_a_few_lines() -> None:
    assert [block.kind for block in BLOCKS] == ["python", "diff", "diff", "console"]
    (name,) = (block for block in BLOCKS if block.path == "backend/models/generators/__init__.py")
    assert len([line for line in name.text.splitlines() if line.startswith("+")]) == 1


@pytest.mark.parametrize("planned", [False, pytest.param(True, marks=pytest.mark.stress)])
def test_the_commands_of_the_walk_through_pass(copy: Path, planned: bool) -> None:
    """Without the planner of the document, whose libraries take seconds to load, the plan is given."""
    (test, *options), arguments = commands()
    if not planned:
        (copy / "plan.json").write_text('{"steps": [{"number": 1, "prompt": "A red house."}]}')
        at = arguments.index("--planner")
        arguments[at : at + 2] = ["--plan", "plan.json"]
    line = [sys.executable, "-c", IN_A_COPY, str(in_tree(copy, test)), " ".join(options), *arguments]
    done = subprocess.run(line, cwd=copy, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) >= 8 and "skipped" not in done.stdout
    assert (copy / "flat-story" / "trajectory.json").is_file()


def test_the_document_names_recipes_that_exist() -> None:
    recipes = re.findall(
        r"^([a-z][\w-]*)[^:\n]*:(?!=)", (ROOT / "justfile").read_text(encoding="utf-8"), re.MULTILINE
    )
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = {name for command in re.findall(r"(?:`| {4})just ([^`\n\"]+)", text) for name in command.split()}
    assert {"setup", "setup-cpu", "lint", "mutate"} <= named
    assert not {name for name in named if "/" not in name} - set(recipes)


def test_the_mutation_run_names_code_and_tests_that_exist() -> None:
    lines = (ROOT / ".ci" / "mutmut.toml").read_text(encoding="utf-8").splitlines()
    paths = [line.strip(' ",') for line in lines if line.startswith('    "interleave_thinker/')]
    assert len(paths) > 5
    for path in paths:
        assert list(ROOT.glob(path.removeprefix("interleave_thinker/"))), f"{path} is in .ci/mutmut.toml"
