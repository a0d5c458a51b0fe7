"""Makes the repository importable under its public name, installed or not; how many processes run the tests.

Decision: whole files go to processes (`--dist loadfile`), so that what a module's fixtures start, a server, a
browser, a training, starts once. Every process computes on one thread: the cores are shared among processes.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parent.parent
SERVERS = 2
"""Processes at most where each may start a ComfyUI of its own."""

if "interleave_thinker" not in sys.modules:
    spec = importlib.util.spec_from_file_location(
        "interleave_thinker", ROOT / "__init__.py", submodule_search_locations=[str(ROOT)]
    )
    assert spec and spec.loader
    package = importlib.util.module_from_spec(spec)
    sys.modules["interleave_thinker"] = package
    spec.loader.exec_module(package)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """0, which is this process, for a single file; two where a ComfyUI is found; None is one a core."""
    if len(config.args) == 1 and Path(config.args[0].partition("::")[0]).is_file():
        return 0
    from support.host_home import find_host

    cores = os.cpu_count() or 1
    return min(SERVERS, cores) if find_host() else None


def pytest_configure(config: pytest.Config) -> None:
    """Tests share their cores with whatever else runs; how long one example takes says nothing about the
    code."""
    if hasattr(config, "workerinput"):
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Imported here: programs that tests start import this file for the package alone, and Hypothesis takes a
    # third of a second.
    import hypothesis

    hypothesis.settings.register_profile("shared machine", deadline=None)
    hypothesis.settings.load_profile("shared machine")
