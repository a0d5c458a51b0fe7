"""Which stories can be loaded: the runs and execution records in the host's output and input folders.

Decision: a choice is looked up among those found, never joined to a path, so a workflow from a stranger
cannot read anything else. The search is bounded in depth and number, for these folders may hold a hundred
thousand images.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ...backend.errors import SettingsError
from ...backend.execution_record.reader import FILE_NAME as RECORD
from ...backend.execution_record.reader import read_record
from ...backend.execution_record.trajectory import record_trajectory
from ...backend.journal.journal import RUN
from ...backend.loop.replay import load_trajectory
from ...backend.types import Trajectory

DEPTH = 4
MAX_FOLDERS = 20_000
MAX_CHOICES = 2_000
NOTHING = "(no story yet)"

Roots = Mapping[str, Path]


def trajectory_names(roots: Roots) -> list[str]:
    """`ROOT/path` of every run and record found, the newest first; a single NOTHING if there is none."""
    found = trajectory_folders(roots)
    newest = sorted(found, key=lambda name: (-_changed(found[name]), name))
    return newest[:MAX_CHOICES] or [NOTHING]


def trajectory_folders(roots: Roots) -> dict[str, Path]:
    """The folders found, by name."""
    return {
        f"{title}/{folder.relative_to(root).as_posix()}": folder
        for title, root in roots.items()
        for folder in _folders(root)
    }


def load_choice(name: str, roots: Roots) -> Trajectory:
    """The story of this name. Raises SettingsError if there is none and JournalError if it cannot be read."""
    folder = find_choice(name, roots)
    if (folder / RUN).is_file():
        return load_trajectory(folder)
    return record_trajectory(read_record(folder))


def find_choice(name: str, roots: Roots) -> Path:
    """Folder of the story of this name; raises SettingsError."""
    folder = trajectory_folders(roots).get(name) if isinstance(name, str) else None
    if folder is None:
        raise SettingsError(
            f"There is no story {str(name)[:120]!r}.",
            (
                f"Put a run's folder, or one with {RECORD}, into the output or input folder and refresh the "
                "page."
            ),
        )
    return folder


def stamp(folder: Path) -> str:
    """A string that changes when a file of the story changes."""
    stamps = []
    for place in (folder, *(folder / name for name in ("attempts", "verdicts", "pictures"))):
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_file() and not entry.name.startswith("."):
                        found = entry.stat()
                        stamps.append(f"{entry.name}:{found.st_size}:{found.st_mtime_ns}")
        except OSError:
            stamps.append(f"{place.name}: none")
    return " ".join(sorted(stamps))


def _changed(folder: Path) -> int:
    times = [
        path.stat().st_mtime_ns
        for name in (RUN, "trajectory.json", RECORD)
        if (path := folder / name).is_file()
    ]
    return max(times, default=0)


def _folders(root: Path) -> Iterator[Path]:
    """Folders with a run or a record in them, breadth first, no links; a story's own sub-folders are not
    searched."""
    level, seen = [root], 0
    for _ in range(DEPTH):
        below: list[Path] = []
        for folder in level:
            try:
                with os.scandir(folder) as entries:
                    names = [
                        entry.name
                        for entry in entries
                        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
                    ]
            except OSError:
                continue
            for name in sorted(names):
                seen += 1
                if seen > MAX_FOLDERS:
                    return
                path = folder / name
                if (path / RUN).is_file() or (path / RECORD).is_file():
                    yield path
                else:
                    below.append(path)
        level = below
