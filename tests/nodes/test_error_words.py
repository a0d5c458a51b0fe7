"""Errors that a node shows name settings that the node's user has: no options of this pack's command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
OTHER_PROGRAMS = frozenset(
    {
        "--cache-none", "--disable-metadata", "--enable-cors-header", "--fp32-vae",  # ComfyUI
        "--listen", "--lowvram",
        "--max-model-len", "--local-dir",  # vLLM, hf
        "--force-reinstall", "--index-url", "--upgrade",  # pip
        "--backend", "--local", "--target", "--safe",  # verl, DeepSpeed
        "--to",  # within a whole command of this pack
    }
)  # fmt: skip
BESIDE_THE_INPUT = frozenset({"--critic", "--download", "--planner", "--set"})
"""Named after the node's input in the same sentence."""


def files() -> list[Path]:
    return sorted(path for part in ("backend", "nodes") for path in (ROOT / part).rglob("*.py"))


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file that are more than one word, without its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documents = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
    for one in ast.walk(tree):
        value = one.value if isinstance(one, ast.Constant) and id(one) not in documents else None
        if isinstance(value, str) and " " in value.strip():
            yield one.lineno, value


@pytest.mark.parametrize("path", files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_text_names_an_option_of_the_command_line(path: Path) -> None:
    found = [
        f"line {line}: {option}"
        for line, text in sentences(path)
        for option in OPTION.findall(text)
        if option not in OTHER_PROGRAMS | BESIDE_THE_INPUT
    ]
    assert not found, "name the setting without dashes, as the node calls it"
