"""Which changes `.github/node_diff.py` reports as breaking saved workflows."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())
spec = importlib.util.spec_from_file_location("node_diff", ROOT / ".github" / "node_diff.py")
assert spec and spec.loader
node_diff = importlib.util.module_from_spec(spec)
spec.loader.exec_module(node_diff)

BASE: dict[str, Any] = {
    "Loop": {
        "inputs": [
            ["plan", "PLAN", True, None],
            ["seed", "INT", False, None],
            ["rule", "COMBO", False, ["a", "b"]],
        ],
        "outputs": ["TRAJECTORY", "STRING"],
    }
}


def changed(path: str, value: Any) -> dict[str, Any]:
    new = copy.deepcopy(BASE)
    exec_path = path.split(".")
    target: Any = new["Loop"]
    for key in exec_path[:-1]:
        target = target[int(key) if key.isdigit() else key]
    target[int(exec_path[-1]) if exec_path[-1].isdigit() else exec_path[-1]] = value
    return new


@pytest.mark.parametrize(
    "new",
    [
        BASE,
        {**BASE, "New": {"inputs": [["a", "INT", True, None]], "outputs": []}},
        changed("inputs", [*BASE["Loop"]["inputs"], ["new", "INT", False, None]]),
        changed("inputs.2.3", ["a", "b", "c"]),
        changed("inputs.2.3", None),
        changed("inputs.0.2", False),
        changed("outputs", ["TRAJECTORY", "STRING", "IMAGE"]),
    ],
)
def test_harmless_changes_are_not_reported(new: dict[str, Any]) -> None:
    assert node_diff.breaking(BASE, new) == []


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ({}, "was removed"),
        (changed("inputs", BASE["Loop"]["inputs"][:2]), "input rule was removed"),
        (
            changed("inputs", [["new", "INT", False, None], *BASE["Loop"]["inputs"]]),
            "was number 1 and is now number 2",
        ),
        (
            changed("inputs", [*BASE["Loop"]["inputs"], ["new", "INT", True, None]]),
            "new input new is required",
        ),
        (changed("inputs.1.1", "FLOAT"), "was INT and is now FLOAT"),
        (changed("inputs.1.2", True), "seed is now required"),
        (changed("inputs.2.3", ["a"]), "no longer has the choice 'b'"),
        (changed("outputs", ["STRING", "TRAJECTORY"]), "outputs were TRAJECTORY, STRING"),
        (changed("outputs", ["TRAJECTORY"]), "outputs were"),
    ],
)
def test_breaking_changes_are_reported(new: dict[str, Any], said: str) -> None:
    assert any(said in line for line in node_diff.breaking(BASE, new))
