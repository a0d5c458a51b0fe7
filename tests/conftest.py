"""Makes the repository importable under its public name, and sets the number of test processes.

Whole files are assigned to processes (`--dist loadfile`), so that what a module's fixtures start (a server, a
browser, a training) starts once. Files with few tests come first: their tests take longest, and no process
waits at the end for another one. Every process computes on one thread, because the processes share the cores.

The garbage collector skips the 800,000 objects (modules, tests) that exist once the tests are collected. To
visit them takes half a second, and training libraries run several full collections per training.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parent.parent
SERVERS = 2
"""Maximum number of processes if each may start its own ComfyUI."""
# Tests kill processes and do not cut the power, so no write waits for the disk: tens of thousands of times,
# 3 ms each. test_atomic.py checks what happens if the disk reports an error.
os.fsync = lambda fd: None

if "interleave_thinker" not in sys.modules:
    spec = importlib.util.spec_from_file_location(
        "interleave_thinker", ROOT / "__init__.py", submodule_search_locations=[str(ROOT)]
    )
    assert spec and spec.loader
    package = importlib.util.module_from_spec(spec)
    sys.modules["interleave_thinker"] = package
    spec.loader.exec_module(package)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return 0 (this process) for a single file, two if there is a ComfyUI, else `None` for one per core."""
    if len(config.args) == 1 and Path(config.args[0].partition("::")[0]).is_file():
        return 0
    from support.host_home import find_host

    cores = os.cpu_count() or 1
    return min(SERVERS, cores) if find_host() else None


def pytest_collection() -> None:
    """Collect the tests without garbage collections, in each of several processes."""
    gc.disable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the files by their number of tests, if they are assigned to processes."""
    if hasattr(config, "workerinput"):
        counts = Counter(item.path for item in items)
        items.sort(key=lambda item: (counts[item.path], item.path))


def pytest_collection_finish() -> None:
    """Exclude all present objects from later garbage collections."""
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Disable Hypothesis deadlines: tests share their cores, so the time of one example means nothing."""
    if hasattr(config, "workerinput"):
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    # pytest-xdist would start with the files of most tests.
    config.option.loadscopereorder = False
    # Imported here: programs started by tests import this file only for the package, and Hypothesis takes a
    # third of a second.
    import hypothesis

    hypothesis.settings.register_profile("shared machine", deadline=None)
    hypothesis.settings.load_profile("shared machine")
