"""Experiments whose figures the documents cite, listed in README.md. Run them from the repository's root.

python -m research.experiments.NAME --help
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if str(ROOT / "tests") not in sys.path:
    sys.path.insert(0, str(ROOT / "tests"))
# Import the package by its public name from this checkout, whether or not it is installed.
importlib.import_module("conftest")
