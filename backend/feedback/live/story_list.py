"""The runs in the folder of all runs, newest first, for the list of stories in the side bar."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

from pydantic import Field

from ...errors import JournalError
from ...journal.journal import Journal
from ...journal.run_files import RUN, TRAJECTORY
from ...loop.replay import load_trajectory
from ...report.outcomes import summarize
from ..delete_run import run_bytes
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
    runs = sorted(((_changed(folder), folder) for folder in _runs(parent)), reverse=True)
    wanted = words.casefold().split()
    known = [(changed, folder, *_known(folder, changed)) for changed, folder in runs]
    found = [one for one in known if all(word in f"{one[1].name} {one[2]}".casefold() for word in wanted)]
    return StoryList(
        stories=[_line(*one) for one in found[start : start + PAGE]],
        count=len(found),
        bytes=sum(size for *_, size in known),
    )


def _runs(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    folders = islice(parent.iterdir(), MAX_RUNS)
    return [folder for folder in folders if not folder.is_symlink() and (folder / RUN).is_file()]


def _changed(folder: Path) -> float:
    """Return when a run was changed last: its records change these files and folders."""
    times = [0.0]
    for name in (RUN, TRAJECTORY, "attempts", "verdicts", "pictures"):
        # A run may be deleted while the list is made.
        with suppress(OSError):
            times.append((folder / name).stat().st_mtime)
    return max(times)


@lru_cache(maxsize=MAX_RUNS)
def _known(folder: Path, changed: float) -> tuple[str, int]:
    """Return the title and the size of a run. Typing a word must not read all folders again."""
    try:
        title = Journal(folder).record().request.text[:MAX_TITLE]
    except JournalError:
        title = folder.name
    return title, run_bytes(folder)


def _line(changed: float, folder: Path, title: str, size: int) -> StoryLine:
    line = StoryLine(run=folder.name, title=title, changed=changed, bytes=size)
    try:
        trajectory = load_trajectory(folder)
    except JournalError as error:
        return line.model_copy(update={"problem": error.message})
    sums = summarize(trajectory)
    images = [result.image for result in trajectory.results if result.image]
    return line.model_copy(
        update={
            "steps": sums.steps,
            "incomplete_steps": sums.incomplete_steps,
            "picture": images[-1].digest if images else None,
        }
    )
