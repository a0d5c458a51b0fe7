"""The runs in the folder of all runs, newest first, for the list of stories in the side bar."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from ...backend.errors import JournalError
from ...backend.journal.delete import run_bytes
from ...backend.journal.journal import RUN, TRAJECTORY, Journal
from ...backend.loop.replay import load_trajectory
from ...backend.report.outcomes import summarize
from ...backend.types import Trajectory
from .messages import MessagePart

PAGE = 24
"""Stories in one answer."""
MAX_RUNS = 5_000
"""Maximum number of folders that are looked at."""
MAX_TITLE = 300


class StoryLine(MessagePart):
    """One run. `picture` is the digest of its last image, `problem` why it cannot be shown."""

    run: str
    title: str
    changed: float = Field(description="Time of the last change, in seconds since 1970.")
    bytes: int
    steps: int = 0
    incomplete_steps: int = 0
    picture: str | None = None
    problem: str = ""


class StoryList(MessagePart):
    """A page of stories, the number of all that match, and the disk space used by all runs."""

    stories: list[StoryLine]
    count: int
    bytes: int


def list_stories(parent: Path, words: str = "", start: int = 0) -> StoryList:
    """Return the runs in a folder whose request contains all words.

    Args:
        parent: The folder of all runs. It may be missing.
        words: Words of the request, in any order and case. Empty: all runs.
        start: Number of matching runs to skip.
    """
    runs = sorted(_runs(parent), key=_changed, reverse=True)
    sizes = {folder: run_bytes(folder) for folder in runs}
    wanted = words.casefold().split()
    found = (
        [folder for folder in runs if all(word in _searched(folder) for word in wanted)] if wanted else runs
    )
    shown = found[start : start + PAGE]
    return StoryList(
        stories=[_line(folder, sizes[folder]) for folder in shown],
        count=len(found),
        bytes=sum(sizes.values()),
    )


def _runs(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    folders = [folder for folder, _ in zip(parent.iterdir(), range(MAX_RUNS), strict=False)]
    return [folder for folder in folders if not folder.is_symlink() and (folder / RUN).is_file()]


def _changed(folder: Path) -> float:
    """Return when a run was changed last: its records change these two files and folders."""
    places = (folder / RUN, folder / TRAJECTORY, folder / "attempts", folder / "verdicts")
    return max((place.stat().st_mtime for place in places if place.exists()), default=0.0)


def _searched(folder: Path) -> str:
    return f"{folder.name} {_title(folder)}".casefold()


def _title(folder: Path) -> str:
    try:
        return Journal(folder).record().request.text[:MAX_TITLE]
    except JournalError:
        return folder.name


def _line(folder: Path, size: int) -> StoryLine:
    line = StoryLine(run=folder.name, title=_title(folder), changed=_changed(folder), bytes=size)
    try:
        trajectory = load_trajectory(folder)
    except JournalError as error:
        return line.model_copy(update={"problem": error.message})
    sums = summarize(trajectory)
    return line.model_copy(
        update={
            "steps": sums.steps,
            "incomplete_steps": sums.incomplete_steps,
            "picture": _last_image(trajectory),
        }
    )


def _last_image(trajectory: Trajectory) -> str | None:
    images = [result.image for result in trajectory.results if result.image]
    return images[-1].digest if images else None
