"""The official evaluators, if there are checkouts: their figures must be the known ones.

INTERLEAVE_EVALUATORS names a folder with checkouts called UEval, RISEBench, SpecV, CoMM and WISE (whose
thousand items are only run with `-m stress`). INTERLEAVE_EVALUATORS_PYTHON is a Python with their
requirements.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

FOLDER = os.environ.get("INTERLEAVE_EVALUATORS", "")
PYTHON = os.environ.get("INTERLEAVE_EVALUATORS_PYTHON", sys.executable)
CHECKOUTS = {"ueval": "UEval", "rise": "RISEBench", "specv": "SpecV", "comm": "CoMM"}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [*CHECKOUTS, pytest.param("wise", marks=pytest.mark.stress)])
def test_an_official_evaluator_reports_the_known_figures(name: str) -> None:
    folder = CHECKOUTS.get(name, "WISE")
    checkout = Path(FOLDER) / folder
    if not FOLDER or not checkout.is_dir():
        pytest.skip(f"needs a checkout: INTERLEAVE_EVALUATORS=FOLDER with {folder}")
    from support.official_scores import scored

    found = scored(name, checkout, PYTHON)
    assert (found["wrong"], found["asked again"]) == ([], 0)
    assert found["questions"] > 0
