"""`python benchmarks/agents`: see run.py."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The folder's own name must not hide the package's modules, and the package is used from this checkout.
sys.path[0] = str(ROOT)

import tests.conftest  # noqa: E402, F401 - makes the checkout importable as interleave_thinker
from benchmarks.agents.run import main  # noqa: E402

if __name__ == "__main__":
    main()
