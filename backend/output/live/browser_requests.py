"""Requests from the browser about runs: their state, list, thumbnails, and the choices and feedback.

A run is named, never given as a path, and only runs directly in the folder of all runs (`runs` of each
function) are found. Nothing is generated or judged here: a choice or a redraw is a line in a file of the run
folder, read by the running or next loop. A run is deleted only if no process is using it.

The folder of a run is named by its request and seed. The same request finds its folder again, so a run
resumes after a crash or a cancel, and a changed setting repeats only what it affects. With another seed every
image differs, so that story has its own folder and both can be loaded.

Thumbnails are WebP of a few sizes, cached in memory, and in the browser permanently, since an image's name is
the digest of its pixels. Nothing is written: a run folder contains only results of the run.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from itertools import count, islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ...core.errors import InterleaveError, JournalError, SettingsError
from ...core.files.atomic import name_fault, slug
from ...core.pictures import DIGEST, Picture
from ...core.types import Request, RunSettings
from ...core.types.cast import Cast
from ...story.approval import approve
from ...story.journal.archive import OF_ONE_STORY, copy_run
from ...story.journal.choices import ask_redraw, newest_redraws, pick, plan_in, read_choices
from ...story.journal.journal import NAME, NOTE, FolderLock, Journal
from ...story.journal.run_files import RUN, TRAJECTORY, RunFiles
from ...story.journal.waiting import waiting_for
from ...story.loop.replay import load_trajectory
from ...story.outcomes import summarize
from ...story.plan_editor.edited_plan import EditedPlan, EditedStep
from ...story.plan_editor.outline import write_outline
from ..feedback_log import MAX_NOTE, Feedback, read_feedback, record_feedback
from .live_messages import LiveMessage, MessagePart, State
from .live_run import replayed

MAX_MASK = 200_000
"""Maximum length of a mask in base64."""


def run_folder(parent: Path, request: Request, seed: int = 0) -> Path:
    """Return the folder of this request and base seed in the folder of all runs, without creating it."""
    folder = folder_of(parent, request)
    return folder.with_name(f"{folder.name}-seed-{seed}") if seed else folder


def folder_of(parent: Path, request: Request) -> Path:
    """Return the folder of a request without a seed in its name."""
    content = hashlib.blake2b(request.text.encode(), digest_size=5)
    for image in request.images:
        content.update(image.digest.encode())
    return parent / f"{slug(request.text) or 'story'}-{content.hexdigest()}"


def known_run(parent: Path, name: str) -> Path:
    """Return the folder of the run of this name.

    Raises:
        SettingsError: It is not directly in the folder of all runs.
    """
    folder = parent / name
    inside = not name_fault(name) and folder.is_dir() and folder.resolve().parent == parent.resolve()
    if not inside:
        raise SettingsError(
            f"The run {name[:100]!r} was not found in {str(parent)!r}.",
            "It may have been deleted: run it again.",
        )
    return folder


SIZES = (256, 512, 1024)
"""Sizes of the longer side in pixels. The smallest that is not below the requested size is used."""
QUALITY = 80
CACHED = 256
"""Maximum number of small images in memory; one has 5 to 150 KB."""


@lru_cache(maxsize=CACHED)
def thumbnail(folder: Path, digest: str, size: int) -> bytes:
    """Return an image of a run as WebP, its longer side at most the next of SIZES.

    Raises:
        SettingsError: The image was not found.
        JournalError: It is damaged.
    """
    picture = RunFiles(folder).read_picture(digest)
    if picture is None:
        raise SettingsError(
            f"The image {digest!r} was not found in the run {folder.name!r}.", "Run it again."
        )
    return small_webp(picture, next((one for one in SIZES if one >= size), SIZES[-1]))


def small_webp(picture: Picture, size: int) -> bytes:
    """Return an image as WebP with a longer side of at most `size` pixels."""
    image = picture.image.copy()
    image.thumbnail((size, size))
    buffer = BytesIO()
    image.save(buffer, "WEBP", quality=QUALITY)
    return buffer.getvalue()


HELD = {NAME, NOTE}


def run_bytes(folder: Path) -> int:
    """Return the size of all files of a run in bytes, without following links."""
    total = 0
    for inner, _, names in os.walk(folder):
        for name in names:
            # A run that is being written may remove a temporary file in the meantime.
            with suppress(OSError):
                total += os.lstat(os.path.join(inner, name)).st_size
    return total


def delete_run(folder: Path) -> None:
    """Delete a run folder with everything in it. Links are removed, never followed.

    `run.json` is deleted last, so a folder of which a part remained is still a run, and can be deleted again.

    Raises:
        JournalError: The folder is not a run, another process is using it, or a file cannot be deleted.
    """
    if folder.is_symlink() or not (folder / RUN).is_file():
        raise JournalError(
            f"{str(folder)!r} does not contain a run.", "Only the folder of a run can be deleted."
        )
    lock = FolderLock(folder)
    lock.take()
    try:
        for path in sorted(folder.iterdir(), key=lambda path: path.name == RUN):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name not in HELD:
                path.unlink()
    except (OSError, RecursionError) as error:  # the latter for folders a thousand levels deep
        raise JournalError(
            f"{str(folder)!r} cannot be deleted: {getattr(error, 'strerror', None) or error}.",
            "Close programs that use its files, or delete the folder by hand.",
        ) from error
    finally:
        lock.release()
    shutil.rmtree(folder, ignore_errors=True)


PAGE = 24
"""Stories in one answer."""
MAX_RUNS = 5_000
"""Maximum number of folders that are looked at."""
MAX_LIBRARY = 200
"""Number of runs whose casts are offered to a new story."""
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
    wanted = words.casefold().split()
    known = [(changed, folder, *_known(folder, changed)) for changed, folder in _newest_runs(parent)]
    found = [one for one in known if all(word in f"{one[1].name} {one[2]}".casefold() for word in wanted)]
    return StoryList(
        stories=[_line(*one) for one in found[start : start + PAGE]],
        count=len(found),
        bytes=sum(size for *_, size in known),
    )


def _newest_runs(parent: Path) -> list[tuple[float, Path]]:
    """Return the runs in a folder, newest first, each with the time of its last change."""
    folders = islice(parent.iterdir(), MAX_RUNS) if parent.is_dir() else ()
    runs = [one for one in folders if not one.is_symlink() and (one / RUN).is_file()]
    return sorted(((_changed(folder), folder) for folder in runs), reverse=True)


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
    except InterleaveError:
        title = folder.name
    return title, run_bytes(folder)


def _line(changed: float, folder: Path, title: str, size: int) -> StoryLine:
    line: dict[str, Any] = {"run": folder.name, "title": title, "changed": changed, "bytes": size}
    try:
        trajectory = load_trajectory(folder)
    except InterleaveError as error:
        return StoryLine(**line, problem=error.message)
    sums = summarize(trajectory)
    last = next((result.image.digest for result in reversed(trajectory.results) if result.image), None)
    return StoryLine(**line, steps=sums.steps, incomplete_steps=sums.incomplete_steps, picture=last)


class StoryCast(MessagePart):
    """The cast of a run."""

    run: str
    cast: Cast


class Casts(MessagePart):
    """Casts of the newest runs that have one."""

    stories: list[StoryCast]


RunName = Annotated[str, Field(max_length=100)]


class BrowserRequest(BaseModel):
    """Base of requests from the browser."""

    model_config = ConfigDict(extra="forbid")


class AskStories(BrowserRequest):
    """Request for the stories whose request contains all of `words`, after the first `start`."""

    words: str = Field(default="", max_length=200)
    start: int = Field(default=0, ge=0)

    def answer(self, runs: Path) -> StoryList:
        """Return a page of the runs in the folder of all runs, newest first."""
        return list_stories(runs, self.words, self.start)


class AskCasts(BrowserRequest):
    """Request for the casts of the newest runs."""

    def answer(self, runs: Path) -> Casts:
        """Return the casts that can be read."""
        found = []
        for _, folder in _newest_runs(runs)[:MAX_LIBRARY]:
            with suppress(InterleaveError):
                plan = plan_in(RunFiles(folder))
                found += [StoryCast(run=folder.name, cast=plan.cast)] if plan and plan.cast else []
        return Casts(stories=found)


class AskRun(BrowserRequest):
    """Request about a run.

    Every `answer` raises SettingsError if the run was not found, and JournalError if it cannot be read.
    """

    run: RunName

    def answer(self, runs: Path) -> State | StoryList | StoryCast:
        """Return a run from its folder, finished or not."""
        folder = known_run(runs, self.run)
        return state_of(folder, replayed(self.run, load_trajectory(folder), waiting_for(folder)).state())


class StoryAgain(StoryCast):
    """A copy of a story, and what the nodes need to continue it. `images` are those of the request.

    `plan` is the text of its plan without the cast.
    """

    request: Request
    plan: str
    settings: RunSettings


class AskAgain(AskRun):
    """Request to copy a run, so that its story can be varied."""

    def answer(self, runs: Path) -> StoryAgain:
        """Copy the run under its request with the next free number, and return what continues the copy."""
        folder = known_run(runs, self.run)
        story = load_trajectory(folder)
        plan, seed = story.plan.as_planned, story.settings.seed
        base = re.sub(r" \(\d+\)$", "", story.request.text)
        requests = (story.request.model_copy(update={"text": f"{base} ({number})"}) for number in count(2))
        asked, place = next(
            (one, place) for one in requests if not (place := run_folder(runs, one, seed)).exists()
        )
        copy_run(folder, place, OF_ONE_STORY, asked)
        steps = tuple(EditedStep(step=step) for step in plan.steps)
        text = write_outline(EditedPlan(steps=steps, style=plan.style))
        return StoryAgain(run=place.name, cast=plan.cast, request=asked, plan=text, settings=story.settings)


class AskDelete(AskRun):
    """Request to delete a run with all its images."""

    def answer(self, runs: Path) -> StoryList:
        """Delete the run, and return the first page of those that are left."""
        delete_run(known_run(runs, self.run))
        return list_stories(runs)


class AskChange(AskRun):
    """Base of requests that change what the user decided or said about a run."""

    def answer(self, runs: Path) -> State:
        """Record the change, and return all choices and feedback of the run, without messages."""
        folder = known_run(runs, self.run)
        self.change(folder)
        return state_of(folder, [])

    def change(self, folder: Path) -> None:
        """Record the change in the run's folder."""
        raise NotImplementedError


class AskChoice(AskChange):
    """Choice of an image as a step's result; `picture` `None` returns the choice to the critic."""

    step: int = Field(ge=1)
    picture: str | None = Field(pattern=DIGEST.pattern)

    def change(self, folder: Path) -> None:
        """Record the choice."""
        pick(folder, self.step, self.picture)


class AskRedraw(AskChange):
    """Request for one more attempt at a step.

    It uses `prompt`, else the prompt of the attempt with the image `picture`, else the step's own. `feedback`
    is recorded with it. `mask` is a PNG in base64, white where `picture` may change.
    """

    step: int = Field(ge=1)
    prompt: str | None = Field(default=None, max_length=MAX_NOTE)
    picture: str | None = Field(default=None, pattern=DIGEST.pattern)
    feedback: Feedback | None = None
    mask: str | None = Field(default=None, max_length=MAX_MASK)
    caption: str | None = Field(default=None, max_length=MAX_NOTE)

    def change(self, folder: Path) -> None:
        """Record the request."""
        mask = None if self.mask is None else Picture.from_base64(self.mask, "The mask")
        if self.feedback is not None:
            record_feedback(folder, self.feedback)
        ask_redraw(folder, self.step, self.prompt, self.picture, mask=mask, caption=self.caption)


class AskDecision(AskChange):
    """Decision about what a run waits for: approve it, or skip the step.

    `step` and `digest` are those of the message that the user saw (`WaitingShown`).
    """

    step: int | None = Field(ge=1)
    digest: str | None = Field(pattern=DIGEST.pattern)
    skip: bool = False

    def change(self, folder: Path) -> None:
        """Record the decision.

        Raises:
            SettingsError: The run was not found, does not wait, has no image to approve, or waits for
                something else than the user saw, for example after a decision in another window.
        """
        waiting = waiting_for(folder)
        if waiting is not None and (waiting.step, waiting.digest) != (self.step, self.digest):
            what = "its plan" if waiting.step is None else f"step {waiting.step}"
            raise SettingsError(
                f"The run now waits for a decision about {what}, which was not shown here.",
                "Reload the page, and decide again.",
            )
        approve(folder, skip=self.skip)


class AskFeedback(AskChange):
    """Feedback on an attempt of a run, which replaces earlier feedback on it."""

    feedback: Feedback

    def change(self, folder: Path) -> None:
        """Record the feedback."""
        record_feedback(folder, self.feedback)


class AskThumbnail(BrowserRequest):
    """Request for a small copy of an image, its longer side `size` pixels or a little more."""

    run: RunName
    picture: str = Field(pattern=DIGEST.pattern)
    size: int = Field(default=SIZES[0], ge=1, le=SIZES[-1])

    def webp(self, runs: Path) -> bytes:
        """Return the copy as WebP.

        Raises:
            SettingsError: The run or image was not found.
            JournalError: The image is damaged.
        """
        return thumbnail(known_run(runs, self.run), self.picture, self.size)


RUN_ROUTES: tuple[tuple[str, str, type[AskRun | AskStories]], ...] = (
    ("GET", "run", AskRun),
    ("GET", "stories", AskStories),
    ("POST", "delete-story", AskDelete),
    ("POST", "choice", AskChoice),
    ("POST", "redraw", AskRedraw),
    ("POST", "decision", AskDecision),
    ("POST", "feedback", AskFeedback),
)
"""Method, name and request of the routes that the nodes and the web app have in common."""


def state_of(folder: Path, messages: list[LiveMessage]) -> State:
    """Return messages of a run with the user's choices and feedback, which are read from its folder."""
    return State(
        messages=messages,
        choices=dict(read_choices(folder).steps),
        redraws=newest_redraws(folder),
        feedback=read_feedback(folder),
        decided=waiting_for(folder) is None,
    )
