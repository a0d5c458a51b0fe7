"""The repository stays small: its totals may fall, never rise.

Lines of code are those without blank lines, comments and docstrings; words are those of the documents.
Whoever adds something takes at least as much out, and lowers the limits here after taking out.
"""

from __future__ import annotations

import ast
import io
import statistics
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("backend", "cli", "nodes", "research", "service", "tinyworld", "training", "webapp")
LINES = {"product": 53_980, "benchmarks": 1_654, "tests": 44_831}
WORDS = 59_600
MODULES, MEDIAN = 401, 154
"""Modules of the product, and the lines of the middle one, which may rise instead."""
LAYOUT = ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENCODING", "ENDMARKER")
NOT_CODE = {getattr(tokenize, name) for name in LAYOUT}


def code_lines(path: Path) -> int:
    text = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else []:
            if (
                isinstance(one, ast.Expr)
                and isinstance(one.value, ast.Constant)
                and isinstance(one.value.value, str)
            ):
                lines.difference_update(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    return len(lines)


@cache
def files(*folders: str) -> list[Path]:
    every = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in every if "experiments" not in path.parts or "research/experiments" in folders]


def test_lines_of_code_do_not_grow() -> None:
    folders = {"product": PRODUCT, "benchmarks": ("research/experiments",), "tests": ("tests",)}
    found = {name: sum(map(code_lines, files(*where))) for name, where in folders.items()}
    assert all(found[name] <= limit for name, limit in LINES.items()), found


def test_modules_stay_few_and_full() -> None:
    sizes = [
        sum(bool(line.strip()) and not line.strip().startswith("#") for line in path.open(encoding="utf-8"))
        for path in files(*PRODUCT)
    ]
    assert len(sizes) <= MODULES and statistics.median(sizes) >= MEDIAN, (
        len(sizes),
        statistics.median(sizes),
    )


def test_words_of_the_documents_do_not_grow() -> None:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8")
    pages = [path for path in (ROOT / "docs").rglob("*.md") if f"/docs/reference/{path.name}" not in ignored]
    words = sum(len(path.read_text(encoding="utf-8").split()) for path in pages)
    assert words <= WORDS, words
