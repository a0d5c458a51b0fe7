"""The official evaluators themselves, where there are checkouts: their numbers are the known ones.

INTERLEAVE_EVALUATORS names a folder with checkouts called UEval, RISEBench, SpecV, CoMM (WISE takes a
thousand items, and is left to benchmarks/official_scores.py); INTERLEAVE_EVALUATORS_PYTHON a Python with what
they need.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

FOLDER = os.environ.get("INTERLEAVE_EVALUATORS", "")
PYTHON = os.environ.get("INTERLEAVE_EVALUATORS_PYTHON", sys.executable)
CHECKOUTS = {"ueval": "UEval", "rise": "RISEBench", "specv": "SpecV", "comm": "CoMM"}


@pytest.mark.parametrize("name", CHECKOUTS)
def test_its_numbers_are_the_known_ones(name: str) -> None:
    checkout = Path(FOLDER) / CHECKOUTS[name]
    if not FOLDER or not checkout.is_dir():
        pytest.skip(f"needs a checkout: INTERLEAVE_EVALUATORS=FOLDER with {CHECKOUTS[name]}")
    from interleave_thinker.benchmarks.official_scores import scored

    found = scored(name, checkout, PYTHON)
    assert (found["wrong"], found["asked again"]) == ([], 0)
    assert found["questions"] > 0
