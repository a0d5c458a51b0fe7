"""Stories in the host's output and input folders: runs, execution records, ZIP files, texts with images.

A choice is looked up among those found, never joined to a path, so a workflow from a stranger cannot read
anything else. The search is limited in depth and number, since these folders may contain a hundred thousand
images.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...backend.core.errors import SettingsError
from ...backend.core.types import Trajectory
from ...backend.story.execution_record.reader import FILE_NAME as RECORD
from ...backend.story.execution_record.reader import TEXTS, text_in
from ...backend.story.journal.archive import ENDING, is_story_archive
from ...backend.story.journal.run_files import RUN
from ...backend.story.loop.replay import load_trajectory
from ...backend.story.outcomes import only_waits, summarize

DEPTH = 4
MAX_FOLDERS = 20_000
MAX_CHOICES = 2_000
MAX_ARCHIVES = 2_000
"""Maximum number of ZIP files that are opened."""
NOTHING = "(no story yet)"
Roots = Mapping[str, Path]


def trajectory_names(roots: Roots) -> list[str]:
    """Return `ROOT/path` of every run, record and archive, newest first; only `NOTHING` if there is none."""
    found = trajectory_places(roots)
    newest = sorted(found, key=lambda name: (-_changed(found[name]), name))
    return newest[:MAX_CHOICES] or [NOTHING]


def trajectory_places(roots: Roots) -> dict[str, Path]:
    """Return the folders and archives found, by name."""
    return {
        f"{title}/{place.relative_to(root).as_posix()}": place
        for title, root in roots.items()
        for place in _places(root)
    }


def load_choice(name: str, roots: Roots) -> Trajectory:
    """Load the story of this name. It is used as it is and does not wait, since no loop here continues it.

    Raises:
        SettingsError: The story was not found.
        JournalError: It cannot be read.
    """
    story = load_trajectory(find_choice(name, roots))
    return story.model_copy(update={"settings": story.settings.model_copy(update={"pause": "never"})})


def find_choice(name: str, roots: Roots) -> Path:
    """Return the folder or archive of the story of this name.

    Raises:
        SettingsError: The story was not found.
    """
    place = trajectory_places(roots).get(name) if isinstance(name, str) else None
    if place is None:
        raise SettingsError(
            f"Load Story: the story {str(name)[:120]!r} was not found.",
            f"Put a run folder, the .zip of a story, a folder with {RECORD}, or a folder with images and "
            f"{TEXTS[0]} into ComfyUI's output or input folder and press R.",
        )
    return place


def stamp(folder: Path) -> str:
    """Return a string that changes when a file of the story changes."""
    if folder.is_file():
        found = folder.stat()
        return f"{folder.name}:{found.st_size}:{found.st_mtime_ns}"
    stamps = []
    for place in (folder, *(folder / name for name in ("attempts", "verdicts", "pictures", "clips"))):
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
    if folder.is_file():
        return folder.stat().st_mtime_ns
    times = [
        path.stat().st_mtime_ns
        for name in (RUN, "trajectory.json", RECORD, *TEXTS)
        if (path := folder / name).is_file()
    ]
    return max(times, default=0)


def _places(root: Path) -> Iterator[Path]:
    """Yield folders with a run or a record, and archives, breadth first.

    Links are not followed, and the subfolders of a story are not searched.
    """
    level, seen, archives = [root], 0, 0
    for _ in range(DEPTH):
        below: list[Path] = []
        for folder in level:
            names, zips = _entries(folder)
            for name in zips:
                archives += 1
                if archives <= MAX_ARCHIVES and is_story_archive(folder / name):
                    yield folder / name
            for name in names:
                seen += 1
                if seen > MAX_FOLDERS:
                    return
                path = folder / name
                if (path / RUN).is_file() or (path / RECORD).is_file() or text_in(path):
                    yield path
                else:
                    below.append(path)
        level = below


def _entries(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the folders and of the ZIP files in a folder, without links and hidden ones."""
    names: list[str] = []
    zips: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
                elif entry.name.lower().endswith(ENDING) and entry.is_file(follow_symlinks=False):
                    zips.append(entry.name)
    except OSError:
        return [], []
    return sorted(names), sorted(zips)


INCOMPLETE = "interleave_incomplete"
"""Key of the warning in a node's display; the browser shows it (web/incomplete.js)."""


def incomplete_line(trajectory: Trajectory) -> str:
    """Return the summary of a story that is not complete, "" for a complete one.

    A paused story that waits for the user's decision also has "": the live view says what it waits for.
    """
    sums = summarize(trajectory)
    return sums.sentence if sums.incomplete_steps and not only_waits(trajectory) else ""


def shown_incomplete(trajectory: Trajectory) -> dict[str, Any]:
    """Return the addition to a node's display for a story that is not complete."""
    line = incomplete_line(trajectory)
    return {INCOMPLETE: (line,)} if line else {}
