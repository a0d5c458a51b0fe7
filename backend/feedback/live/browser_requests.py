"""Requests from the browser about runs: their state, list, thumbnails, and the choices and feedback.

A run is named, never given as a path, and only runs directly in the folder of all runs (`runs` of each
function) are found. Nothing is generated or judged here: a choice or a redraw is a line in a file of the run
folder, read by the running or next loop. A run is deleted only if no process is using it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ...errors import SettingsError
from ...feedback.log import MAX_NOTE, Feedback, read_feedback, record_feedback
from ...journal.choices import ask_redraw, newest_redraws, pick, read_choices
from ...journal.waiting import waiting_for
from ...loop.replay import load_trajectory
from ...pictures import DIGEST
from ...pipeline.approval import approve
from ..delete_run import delete_run
from .messages import LiveMessage, State
from .replayed import replayed
from .run_folders import known_run
from .story_list import StoryList, list_stories
from .thumbnails import SIZES, THUMBNAILS

RunName = Annotated[str, Field(max_length=100)]


class BrowserRequest(BaseModel):
    """Base of requests from the browser."""

    model_config = ConfigDict(extra="forbid")


class AskRun(BrowserRequest):
    """Request for a run."""

    run: RunName


class AskStories(BrowserRequest):
    """Request for the stories whose request contains all of `words`, after the first `start`."""

    words: str = Field(default="", max_length=200)
    start: int = Field(default=0, ge=0)


class AskDelete(BrowserRequest):
    """Request to delete a run with all its images."""

    run: RunName


class AskChoice(BrowserRequest):
    """Choice of an image as a step's result; `picture` `None` returns the choice to the critic."""

    run: RunName
    step: int = Field(ge=1)
    picture: str | None = Field(pattern=DIGEST.pattern)


class AskRedraw(BrowserRequest):
    """Request for one more attempt at a step.

    It uses `prompt`, else the prompt of the attempt with the image `picture`, else the step's own. `feedback`
    is recorded with it.
    """

    run: RunName
    step: int = Field(ge=1)
    prompt: str | None = Field(default=None, max_length=MAX_NOTE)
    picture: str | None = Field(default=None, pattern=DIGEST.pattern)
    feedback: Feedback | None = None


class AskDecision(BrowserRequest):
    """Decision about what a run waits for: approve it, or skip the step.

    `step` and `digest` are those of the message that the user saw (`WaitingShown`).
    """

    run: RunName
    step: int | None = Field(ge=1)
    digest: str | None = Field(pattern=DIGEST.pattern)
    skip: bool = False


class AskThumbnail(BrowserRequest):
    """Request for a small copy of an image, its longer side `size` pixels or a little more."""

    run: RunName
    picture: str = Field(pattern=DIGEST.pattern)
    size: int = Field(default=SIZES[0], ge=1, le=SIZES[-1])


class AskFeedback(BrowserRequest):
    """Feedback on an attempt of a run, which replaces earlier feedback on it."""

    run: RunName
    feedback: Feedback


def run_state(runs: Path, asked: AskRun) -> State:
    """Return a run from its folder, finished or not.

    Raises:
        SettingsError: The run was not found.
        JournalError: It cannot be read.
    """
    folder = known_run(runs, asked.run)
    return state_of(folder, replayed(asked.run, load_trajectory(folder), waiting_for(folder)).state())


def stories(runs: Path, asked: AskStories) -> StoryList:
    """Return a page of the runs in the folder of all runs, newest first."""
    return list_stories(runs, asked.words, asked.start)


def delete_story(runs: Path, asked: AskDelete) -> StoryList:
    """Delete a run, and return the first page of those that are left.

    Raises:
        SettingsError: The run was not found.
        JournalError: Another process is using it, or a file cannot be deleted.
    """
    delete_run(known_run(runs, asked.run))
    return list_stories(runs)


def note_choice(runs: Path, asked: AskChoice) -> State:
    """Record a choice and return all choices of the run, without messages."""
    folder = known_run(runs, asked.run)
    pick(folder, asked.step, asked.picture)
    return state_of(folder, [])


def note_redraw(runs: Path, asked: AskRedraw) -> State:
    """Record a redraw request and return the newest redraw of every step, without messages."""
    folder = known_run(runs, asked.run)
    if asked.feedback is not None:
        record_feedback(folder, asked.feedback)
    ask_redraw(folder, asked.step, asked.prompt, asked.picture)
    return state_of(folder, [])


def note_decision(runs: Path, asked: AskDecision) -> State:
    """Record a decision about what the run waits for, and return the choices, without messages.

    Raises:
        SettingsError: The run was not found, does not wait, has no image to approve, or waits for something
            else than the user saw, for example after a decision in another window.
    """
    folder = known_run(runs, asked.run)
    waiting = waiting_for(folder)
    if waiting is not None and (waiting.step, waiting.digest) != (asked.step, asked.digest):
        what = "its plan" if waiting.step is None else f"step {waiting.step}"
        raise SettingsError(
            f"The run now waits for a decision about {what}, which was not shown here.",
            "Reload the page, and decide again.",
        )
    approve(folder, skip=asked.skip)
    return state_of(folder, [])


def thumbnail_of(runs: Path, asked: AskThumbnail) -> bytes:
    """Return a small copy of an image as WebP.

    Raises:
        SettingsError: The run or image was not found.
        JournalError: The image is damaged.
    """
    folder = known_run(runs, asked.run)
    return THUMBNAILS.webp(folder, asked.picture, asked.size)


def note_feedback(runs: Path, asked: AskFeedback) -> State:
    """Record feedback on an attempt and return all feedback on the run, without messages."""
    folder = known_run(runs, asked.run)
    record_feedback(folder, asked.feedback)
    return state_of(folder, [])


def state_of(folder: Path, messages: list[LiveMessage]) -> State:
    """Return messages of a run with the user's choices and feedback, which are read from its folder."""
    return State(
        messages=messages,
        choices=dict(read_choices(folder).steps),
        redraws=newest_redraws(folder),
        feedback=read_feedback(folder),
        decided=waiting_for(folder) is None,
    )
