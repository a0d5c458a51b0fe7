"""Folders that are made once for all processes that run the tests of one session.

Decision: pytest-xdist gives every process a temporary folder inside the session's own, so what is in that one
is everybody's; a lock has one process make it and the others wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock


def made_once(base: Path, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that `make` fills, in `base` (`tmp_path_factory.getbasetemp()`); complete when this
    returns."""
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = session / name
    with FileLock(session / f"{name}.lock"):
        if not folder.exists():
            begun = session / f"{name}.part"
            make(begun)
            begun.rename(folder)
    return folder
