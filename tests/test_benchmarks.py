"""Every experiment of benchmarks/ is listed in its README, and the document named there cites it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
ROW = re.compile(r"^\| `(\w+)`(?: \(with `(\w+)\.py`\)| \(a module\))? \| (.+) \|$", re.MULTILINE)
ROWS = ROW.findall((FOLDER / "README.md").read_text(encoding="utf-8"))


def test_the_list_is_complete() -> None:
    listed = {name for row in ROWS for name in row[:2] if name}
    there = {
        path.stem for path in FOLDER.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert listed == there - {"__init__"}


@pytest.mark.parametrize(("name", "produces"), [(name, produces) for name, _, produces in ROWS])
def test_every_benchmark_is_cited_in_a_document(name: str, produces: str) -> None:
    linked = re.search(r"\]\(\.\./(docs/[\w/-]+\.md)\)", produces) or re.search(r"`([\w/]+\.py)`", produces)
    assert linked
    text = (FOLDER.parent / linked[1]).read_text(encoding="utf-8")
    assert re.search(rf"\bbenchmarks[./]{name}\b", text), f"{linked[1]} does not cite {name}"
