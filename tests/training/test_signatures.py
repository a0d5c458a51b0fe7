"""Functions of the training stay callable: past six arguments, what belongs together is an object with a
name."""

from __future__ import annotations

import ast
from pathlib import Path

TRAINING = Path(__file__).resolve().parents[2] / "training"
MOST = 6


def test_no_function_takes_more_than_six_arguments() -> None:
    long = []
    for path in TRAINING.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                if sum(one.arg not in ("self", "cls") for one in every) > MOST:
                    long.append(f"{path.relative_to(TRAINING)}: {node.name}")
    assert not long
