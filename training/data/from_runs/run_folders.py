"""Finds the runs in folders and story files, and reads them one after the other.

A damaged run is an error that names it, because a gap in the data would not be noticed. With `skip_bad` such
runs are left out and listed. A story file is unpacked for the lifetime of the process, since its images are
copied by path.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ....backend.errors import JournalError, PictureError, SettingsError
from ....backend.execution_record.reader import FILE_NAME as RECORD
from ....backend.feedback.log import Feedback, read_feedback
from ....backend.journal.archive import is_story_archive, unpack_run
from ....backend.journal.copy import save_trajectory
from ....backend.journal.records.run_files import RUN
from ....backend.loop.replay import load_trajectory
from ....backend.types import Trajectory, Verdict
from ..rows.sft import RowProblem
from .attempts import JudgedStep, Log, RunReader

DEEPEST = 4
"""Levels of folders in which runs are searched."""


def find_runs(given: Sequence[Path]) -> list[tuple[Path, str]]:
    """Return the run folders in the given folders with a name for each, in a fixed order without duplicates.

    A given .zip file is a story file.

    Raises:
        SettingsError: A folder does not exist or contains no run.
        JournalError: A story file is damaged.
    """
    found: dict[Path, tuple[Path, str]] = {}
    for folder in given:
        if is_story_archive(folder):
            found.setdefault(folder.resolve(), (_unpacked(folder), folder.stem))
            continue
        if not folder.is_dir():
            raise SettingsError(
                f"The folder {str(folder)!r} does not exist.", "Give the --out folders of runs."
            )
        runs = sorted(_below(folder, DEEPEST))
        if not runs:
            raise SettingsError(
                f"{str(folder)!r} does not contain a run.",
                "Give the --out folder of a run, or a folder of such folders.",
            )
        for run in runs:
            name = run.name if run == folder else f"{folder.name}/{run.relative_to(folder).as_posix()}"
            found.setdefault(run.resolve(), (run, name or run.resolve().name))
    return list(found.values())


_unpacked_here: list[tempfile.TemporaryDirectory[str]] = []
"""Temporary folders, which are deleted when the process ends."""


def _unpacked(archive: Path) -> Path:
    made = tempfile.TemporaryDirectory(prefix="interleave-story-")
    _unpacked_here.append(made)
    return unpack_run(archive, Path(made.name) / "run")


def _of_record(folder: Path) -> Path:
    """Convert a published record to a run folder, for the lifetime of the process."""
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
        raise SettingsError(
            f"{str(folder)!r} cannot be read: {error.strerror or error}.", "Check its permissions."
        ) from error
    for entry in entries:
        yield from _below(entry, depth - 1)


def sound_runs(given: Sequence[Path], reader: RunReader, skip_bad: bool = False) -> Iterator[Trajectory]:
    """Yield the trajectories of all runs that `read_runs` will read.

    Raises:
        JournalError: A run is damaged, and `skip_bad` is false.
    """
    for folder, name in find_runs(given):
        try:
            trajectory = load_trajectory(folder)
            if not reader.in_benchmark(name, trajectory):
                yield trajectory
        except (JournalError, PictureError) as error:
            if not skip_bad:
                raise _damaged(name, error) from error


class AnnotatedImage(NamedTuple):
    """An image with the critic's verdict and a person's feedback.

    Attributes:
        feedback: The feedback.
        verdict: The critic's verdict.
        image: Digest of the image.
        prompt: Prompt of the attempt.
    """

    feedback: Feedback
    verdict: Verdict
    image: str
    prompt: str


class AnnotatedRun(NamedTuple):
    """A run with feedback.

    Attributes:
        name: Its name.
        critic: Identity of its critic.
        images: Its judged images that have feedback.
    """

    name: str
    critic: str
    images: list[AnnotatedImage]

    @property
    def critic_model(self) -> str:
        """Identity of the critic's model, without its prompts and settings."""
        return self.critic.partition("|")[0]


def annotated_runs(given: Sequence[Path]) -> Iterator[AnnotatedRun]:
    """Yield the runs in these folders that have feedback.

    Feedback on an image that was generated again later is left out.

    Raises:
        JournalError: A run is damaged.
        SettingsError: A folder does not contain a run.
    """
    for folder, name in find_runs(given):
        words = read_feedback(folder)
        if not words:
            continue
        trajectory = load_trajectory(folder)
        attempts = {
            (result.step.number, number): attempt
            for result in trajectory.results
            for number, attempt in enumerate(result.attempts)
        }
        images = []
        for word in words:
            attempt = attempts.get((word.step, word.attempt))
            if attempt is None or attempt.image is None or attempt.verdict is None:
                continue
            if word.image in (None, attempt.image.digest):
                images.append(AnnotatedImage(word, attempt.verdict, attempt.image.digest, attempt.prompt))
        yield AnnotatedRun(name, trajectory.identities.critic, images)


def _damaged(name: str, error: JournalError | PictureError) -> JournalError:
    hint = f"{error.hint} Or leave out such runs with --skip-bad.".strip()
    return JournalError(f"Run {name!r}: {error.message}", hint)


def read_runs(
    given: Sequence[Path], reader: RunReader, skip_bad: bool = False, log: Log = print
) -> tuple[list[JudgedStep], list[RowProblem]]:
    """Read the steps of all runs.

    Returns:
        (steps, problems of left-out runs).

    Raises:
        JournalError: A run is damaged, and `skip_bad` is false.
        SettingsError: No run is left.
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
