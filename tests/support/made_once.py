"""Folders that are created once for all processes of a test session.

pytest-xdist gives every process a temporary folder inside the session's own, which is shared. With a lock,
one process creates the folder and the others wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock


def made_once(base: Path, name: str, make: Callable[[Path], object]) -> Path:
    """Return a complete folder in `base` (`tmp_path_factory.getbasetemp()`) that `make` has filled."""
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = session / name
    with FileLock(session / f"{name}.lock"):
        if not folder.exists():
            begun = session / f"{name}.part"
            make(begun)
            begun.rename(folder)
    return folder
