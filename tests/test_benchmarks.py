"""Every experiment is listed in its README, and the document named there cites it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interleave_thinker.research.experiments.agents import median_interval

FOLDER = Path(__file__).resolve().parents[1] / "research" / "experiments"
ROW = re.compile(r"^\| `(\w+)`(?: \(with `(\w+)\.py`\))? \| (.+) \|$", re.MULTILINE)
ROWS = ROW.findall((FOLDER / "README.md").read_text(encoding="utf-8"))


def test_the_list_is_complete() -> None:
    listed = {name for row in ROWS for name in row[:2] if name}
    there = {
        path.stem for path in FOLDER.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert listed == there - {"__init__"}


@pytest.mark.parametrize(("name", "produces"), [(name, produces) for name, _, produces in ROWS])
def test_every_benchmark_is_cited_in_a_document(name: str, produces: str) -> None:
    linked = re.search(r"\]\(((?:\.\./\.\./docs|notes)/[\w/-]+\.md)\)", produces)
    assert linked
    text = (FOLDER / linked[1]).resolve().read_text(encoding="utf-8")
    assert re.search(rf"\bexperiments[./]{name}\b", text), f"{linked[1]} does not cite {name}"


@pytest.mark.parametrize(
    ("values", "interval"),
    [([6.0, 1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 6.0]), ([float(value) for value in range(20)], [5.0, 14.0])],
)
def test_a_median_has_an_exact_interval(values: list[float], interval: list[float] | None) -> None:
    """Six values are all on one side of the median with a probability of 2/64: the table of the sign test."""
    assert median_interval(values) == interval
