"""Finds the runs in folders and story files, and what is known of a run next to its journal.

A story file is unpacked, and a published record converted, for the lifetime of the process, since images are
copied by path.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from ...backend.core.errors import JournalError, SettingsError
from ...backend.core.files.bounded_reader import read_bytes_if_any
from ...backend.core.types import Verdict
from ...backend.output.feedback_log import Feedback, read_feedback
from ...backend.story.execution_record.reader import FILE_NAME as RECORD
from ...backend.story.journal.archive import copy_run, is_story_archive
from ...backend.story.journal.copy import save_trajectory
from ...backend.story.journal.run_files import RUN
from ...backend.story.loop.replay import load_trajectory

DEEPEST = 4
"""Levels of folders in which runs are searched."""
SAMPLE = "sample.json"
MAX_SAMPLE = 1024 * 1024
TRAIN = "train"
_unpacked_here: list[tempfile.TemporaryDirectory[str]] = []
"""Temporary folders, which are deleted when the process ends."""


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
            if folder.resolve() not in found:
                found[folder.resolve()] = copy_run(folder, _temporary()), folder.stem
            continue
        runs = sorted(_below(folder, DEEPEST)) if folder.is_dir() else []
        if not runs:
            hint = "Give the --out folder of a run, or a folder of such folders."
            raise SettingsError(f"{str(folder)!r} does not exist or does not contain a run.", hint)
        for run in runs:
            name = run.name if run == folder else f"{folder.name}/{run.relative_to(folder).as_posix()}"
            found.setdefault(run.resolve(), (run, name or run.resolve().name))
    return list(found.values())


def as_run(folder: Path) -> Path:
    """Return the folder, or a temporary run folder of the published record that is in it.

    Raises:
        JournalError: The record is damaged.
    """
    return folder if (folder / RUN).is_file() else save_trajectory(load_trajectory(folder), _temporary())


def _temporary() -> Path:
    made = tempfile.TemporaryDirectory(prefix="interleave-run-")
    _unpacked_here.append(made)
    return Path(made.name) / "run"


def _below(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / RUN).is_file() or (folder / RECORD).is_file():
        yield folder
        return
    if depth == 0:
        return
    try:
        entries = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise SettingsError(f"{str(folder)!r} cannot be read: {error}.", "Check its permissions.") from error
    for entry in entries:
        yield from _below(entry, depth - 1)


class RunPrompt(BaseModel):
    """The prompt that a run was made from: its id, and its split (empty if there is none)."""

    model_config = ConfigDict(extra="ignore")

    id: str = ""
    split: str = ""


def prompt_of(folder: Path) -> RunPrompt:
    """Return the prompt that a run was made from, by `sample.json` in its folder.

    Raises:
        JournalError: The file is damaged.
    """
    found = read_bytes_if_any(folder / SAMPLE, MAX_SAMPLE, JournalError, "Sample")
    try:
        return RunPrompt() if found is None else RunPrompt.model_validate_json(found)
    except ValidationError as error:
        raise JournalError(f"{str(folder / SAMPLE)!r} is damaged.", "Delete it.") from error


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
