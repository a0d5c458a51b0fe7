"""The official evaluators themselves, where there are checkouts: their numbers are the known ones.

INTERLEAVE_EVALUATORS names a folder with checkouts called UEval, RISEBench, SpecV, CoMM (WISE takes a
thousand items, and is left to benchmarks/official_scores.py); INTERLEAVE_EVALUATORS_PYTHON a Python with what
they need.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = os.environ.get("INTERLEAVE_EVALUATORS", "")
PYTHON = os.environ.get("INTERLEAVE_EVALUATORS_PYTHON", sys.executable)
CHECKOUTS = {"ueval": "UEval", "rise": "RISEBench", "specv": "SpecV", "comm": "CoMM"}
SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "official_scores.py"


@pytest.mark.parametrize("name", CHECKOUTS)
def test_its_numbers_are_the_known_ones(name: str) -> None:
    checkout = Path(FOLDER) / CHECKOUTS[name]
    if not FOLDER or not checkout.is_dir():
        pytest.skip(f"needs a checkout: INTERLEAVE_EVALUATORS=FOLDER with {CHECKOUTS[name]}")
    found = script().scored(name, checkout, PYTHON)
    assert (found["wrong"], found["asked again"]) == ([], 0)
    assert found["questions"] > 0


def script() -> Any:
    spec = importlib.util.spec_from_file_location("official_scores", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["official_scores"] = module
    spec.loader.exec_module(module)
    return module
