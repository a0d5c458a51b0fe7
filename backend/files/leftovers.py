"""Temporary files and folders that killed processes left behind."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

TEMPORARY = re.compile(r"\..*\.[0-9a-f]{16}\.tmp")
"""Temporary names. A file with such a name that persists was left behind by a killed process."""


def sweep(*folders: str | Path, files_alone: bool = False) -> None:
    """Remove temporary files and folders of killed processes directly in these folders.

    What is in use stays until the next time.

    Args:
        *folders: Folders to clean.
        files_alone: Whether to remove only files. Use it where `writing_folder` is never used, so that a
            folder with such a name belongs to the user.
    """
    for folder in map(Path, folders):
        if not folder.is_dir():
            continue
        for path in [path for path in folder.iterdir() if TEMPORARY.fullmatch(path.name)]:
            if not files_alone or is_left_over(path):
                remove_tree(path)


def is_left_over(path: Path) -> bool:
    """Return whether a file or link may be left over from a killed process."""
    return TEMPORARY.fullmatch(path.name) is not None and (path.is_symlink() or not path.is_dir())


def remove_left(path: Path, mark: str) -> None:
    """Remove temporary folders of this name and mark that killed processes left behind."""
    if path.parent.is_dir():
        left = re.compile(rf"\.{re.escape(path.name + mark)}\.[0-9a-f]{{16}}\.tmp")
        for found in [found for found in path.parent.iterdir() if left.fullmatch(found.name)]:
            remove_tree(found)


def remove_tree(path: Path) -> None:
    """Remove a file or folder without following links.

    Errors are ignored, since the next sweep repeats the attempt.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            unlink(path)


def unlink(path: Path) -> None:
    """Delete a file or a link, if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(path)
