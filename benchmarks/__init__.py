"""Experiments whose figures the documents cite; README.md lists them. Run one from the repository's root:

python -m benchmarks.NAME --help
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

if str(ROOT / "tests") not in sys.path:
    sys.path.insert(0, str(ROOT / "tests"))
# Imports the package under its public name from this checkout, installed or not.
importlib.import_module("conftest")
