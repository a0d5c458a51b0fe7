"""Whether tests start Ray, and processes that import this checkout."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ASKED = "INTERLEAVE_TEST_RAY"
ON_RAY = pytest.mark.skipif(
    not os.environ.get(ASKED) or find_spec("ray") is None,
    reason=f"starts Ray, half a minute of two busy cores: install the extra 'ray' and set {ASKED}=1",
)


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let new processes import this checkout under its public name; `folder` must be empty."""
    (folder / "interleave_thinker").symlink_to(ROOT, target_is_directory=True)
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "RAY_USAGE_STATS_ENABLED")}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), str(ROOT / "tests")])
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
