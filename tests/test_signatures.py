"""No function of the outer layers takes more than six arguments; related ones are grouped in an object."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("training", "evaluation", "service", "webapp", "tinyworld")
MAX_ARGUMENTS = 6


def test_functions_have_at_most_six_arguments() -> None:
    long = []
    for path in (path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                if sum(one.arg not in ("self", "cls") for one in every) > MAX_ARGUMENTS:
                    long.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert not long
