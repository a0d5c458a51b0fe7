"""A separate Ray for a test: two processors, a small store, workers that import this checkout."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ASKED = "INTERLEAVE_TEST_RAY"
ON_RAY = pytest.mark.skipif(
    not os.environ.get(ASKED) or find_spec("ray") is None,
    reason=f"starts Ray, half a minute of two busy cores: install the extra 'ray' and set {ASKED}=1",
)
STORE = 200 * 1024 * 1024


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


@contextmanager
def ray_here(folder: Path) -> Iterator[Any]:
    """Start Ray in this process, and shut it down afterwards."""
    import ray

    with importable(folder):
        ray.init(
            address="local",
            num_cpus=2,
            object_store_memory=STORE,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
        )
        try:
            yield ray
        finally:
            ray.shutdown()
