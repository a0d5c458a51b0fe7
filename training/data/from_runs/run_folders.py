"""The runs in and below given folders, and in stories of one file, found and read one after the other.

Decision: a damaged run is an error that names it, because a silent gap in the data is noticed by nobody;
whoever wants the others all the same says so, and gets a list of those left out. A story in one file is
unpacked for as long as this process lives, since its pictures are copied by their paths.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ....backend.errors import JournalError, PictureError, SettingsError
from ....backend.execution_record.reader import FILE_NAME as RECORD
from ....backend.journal.archive import is_story_archive, unpack_run
from ....backend.journal.copy import save_trajectory
from ....backend.journal.journal import RUN
from ....backend.loop.replay import load_trajectory
from ....backend.types import Trajectory
from ..rows.sft import RowProblem
from .attempts import JudgedStep, Log, RunReader

DEEPEST = 4
"""Levels below a given folder at which runs are still looked for."""


def find_runs(given: Sequence[Path]) -> list[tuple[Path, str]]:
    """The runs' folders in and below the given ones with a name for each, in a fixed order, each once; a
    given .zip file is a story's.

    Raises SettingsError for a folder that is not there or holds no run, JournalError for a bad story file.
    """
    found: dict[Path, tuple[Path, str]] = {}
    for folder in given:
        if is_story_archive(folder):
            found.setdefault(folder.resolve(), (_unpacked(folder), folder.stem))
            continue
        if not folder.is_dir():
            raise SettingsError(f"There is no folder {str(folder)!r}.", "Give the --out folders of runs.")
        runs = sorted(_below(folder, DEEPEST))
        if not runs:
            raise SettingsError(
                f"{str(folder)!r} holds no run.", "Give the --out folder of one, or a folder of such folders."
            )
        for run in runs:
            name = run.name if run == folder else f"{folder.name}/{run.relative_to(folder).as_posix()}"
            found.setdefault(run.resolve(), (run, name or run.resolve().name))
    return list(found.values())


_unpacked_here: list[tempfile.TemporaryDirectory[str]] = []
"""Deleted when the process ends."""


def _unpacked(archive: Path) -> Path:
    made = tempfile.TemporaryDirectory(prefix="interleave-story-")
    _unpacked_here.append(made)
    return unpack_run(archive, Path(made.name) / "run")


def _of_record(folder: Path) -> Path:
    """A published record as a run's folder, for as long as this process lives."""
    made = tempfile.TemporaryDirectory(prefix="interleave-record-")
    _unpacked_here.append(made)
    return save_trajectory(load_trajectory(folder), Path(made.name) / "run")


def _below(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / RUN).is_file() or (folder / RECORD).is_file():
        yield folder
        return
    if depth == 0:
        return
    try:
        entries = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise SettingsError(f"{str(folder)!r} cannot be read ({error.strerror or error}).") from error
    for entry in entries:
        yield from _below(entry, depth - 1)


def sound_runs(given: Sequence[Path], reader: RunReader, skip_bad: bool = False) -> Iterator[Trajectory]:
    """The trajectories of all runs that `read_runs` is going to read. Raises JournalError for the first
    damaged run unless `skip_bad`, which passes over it."""
    for folder, name in find_runs(given):
        try:
            trajectory = load_trajectory(folder)
            if not reader.in_benchmark(name, trajectory):
                yield trajectory
        except (JournalError, PictureError) as error:
            if not skip_bad:
                raise _damaged(name, error) from error


def _damaged(name: str, error: JournalError | PictureError) -> JournalError:
    hint = f"{error.hint} Or leave such runs out: --skip-bad.".strip()
    return JournalError(f"Run {name!r}: {error.message}", hint)


def read_runs(
    given: Sequence[Path], reader: RunReader, skip_bad: bool = False, log: Log = print
) -> tuple[list[JudgedStep], list[RowProblem]]:
    """The steps of all runs, and what was wrong with runs that were left out.

    Raises JournalError for the first damaged run unless `skip_bad`, SettingsError if none is left.
    """
    steps: list[JudgedStep] = []
    problems: list[RowProblem] = []
    runs = find_runs(given)
    for number, (folder, name) in enumerate(runs, 1):
        try:
            steps += reader.read(folder if (folder / RUN).is_file() else _of_record(folder), name)
        except (JournalError, PictureError) as error:
            if not skip_bad:
                raise _damaged(name, error) from error
            problems.append(RowProblem(f"run {name}", "journal", str(error)))
        if number % 50 == 0:
            log(f"{number}/{len(runs)} runs read")
    if len(problems) == len(runs):
        raise SettingsError("None of these runs can be read.", str(problems[0]))
    return steps, problems
