"""Routes for the browser: state, list and thumbnails of runs, and the user's choices, redraws and feedback.

A run is named, never given as a path, and only runs directly in output/interleave-thinker are served. Nothing
is generated or judged here: a choice or a redraw is a line in a file of the run folder, read by the running
or next loop. A run is deleted only if no process is using it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ...backend.errors import SettingsError
from ...backend.feedback.log import MAX_NOTE, Feedback, read_feedback, record_feedback
from ...backend.journal.delete import delete_run
from ...backend.journal.picks import pick, read_choices
from ...backend.journal.redraws import ask_redraw, newest_redraws
from ...backend.journal.waiting import waiting_for
from ...backend.loop.replay import load_trajectory
from ...backend.pictures import DIGEST
from ...backend.pipeline.approval import approve
from .. import host
from ..inputs.run_folder import PARENT, known_run
from .live_run import LIVE_RUNS
from .messages import EVENT, LiveMessage, State
from .replayed import replayed
from .story_list import StoryList, list_stories
from .thumbnails import SIZES, THUMBNAILS

NodeId = Annotated[str, Field(max_length=200)]
RunName = Annotated[str, Field(max_length=100)]
PREFIX = f"/{EVENT}"


class BrowserRequest(BaseModel):
    """Base of requests from the browser."""

    model_config = ConfigDict(extra="forbid")


class AskLive(BrowserRequest):
    """Request for a node's newest run."""

    node: NodeId
    workflow: NodeId | None = None


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


def live_state(asked: AskLive) -> State:
    """Return the newest run of a node, empty if there was none since the server started."""
    live = LIVE_RUNS.find(asked.node, asked.workflow)
    if live is None:
        return State()
    if live.status == "running" and live.prompt and not host.is_running(live.prompt):
        live.stop()
    # The folder is created with the run's first step, and may have been deleted since.
    folder = host.output_folder() / PARENT / live.run
    return _state(folder, live.state())


def run_state(asked: AskRun) -> State:
    """Return a run from its folder, finished or not.

    Raises:
        SettingsError: The run was not found.
        JournalError: It cannot be read.
    """
    folder = known_run(host.output_folder(), asked.run)
    return _state(folder, replayed(asked.run, load_trajectory(folder), waiting_for(folder)).state())


def stories(asked: AskStories) -> StoryList:
    """Return a page of the runs in the folder of all runs, newest first."""
    return list_stories(host.output_folder() / PARENT, asked.words, asked.start)


def delete_story(asked: AskDelete) -> StoryList:
    """Delete a run, and return the first page of those that are left.

    Raises:
        SettingsError: The run was not found.
        JournalError: Another process is using it, or a file cannot be deleted.
    """
    delete_run(known_run(host.output_folder(), asked.run))
    return list_stories(host.output_folder() / PARENT)


def note_choice(asked: AskChoice) -> State:
    """Record a choice and return all choices of the run, without messages."""
    folder = known_run(host.output_folder(), asked.run)
    pick(folder, asked.step, asked.picture)
    return _state(folder, [])


def note_redraw(asked: AskRedraw) -> State:
    """Record a redraw request and return the newest redraw of every step, without messages."""
    folder = known_run(host.output_folder(), asked.run)
    if asked.feedback is not None:
        record_feedback(folder, asked.feedback)
    ask_redraw(folder, asked.step, asked.prompt, asked.picture)
    return _state(folder, [])


def note_decision(asked: AskDecision) -> State:
    """Record a decision about what the run waits for, and return the choices, without messages.

    Raises:
        SettingsError: The run was not found, does not wait, has no image to approve, or waits for something
            else than the user saw, for example after a decision in another window.
    """
    folder = known_run(host.output_folder(), asked.run)
    waiting = waiting_for(folder)
    if waiting is not None and (waiting.step, waiting.digest) != (asked.step, asked.digest):
        what = "its plan" if waiting.step is None else f"step {waiting.step}"
        raise SettingsError(
            f"The run now waits for a decision about {what}, which was not shown here.",
            "Reload the page, and decide again.",
        )
    approve(folder, skip=asked.skip)
    return _state(folder, [])


def thumbnail_of(asked: AskThumbnail) -> host.Content:
    """Return a small WebP copy of an image.

    Raises:
        SettingsError: The run or image was not found.
        JournalError: The image is damaged.
    """
    folder = known_run(host.output_folder(), asked.run)
    return host.Content(THUMBNAILS.webp(folder, asked.picture, asked.size), "image/webp")


def note_feedback(asked: AskFeedback) -> State:
    """Record feedback on an attempt and return all feedback on the run, without messages."""
    folder = known_run(host.output_folder(), asked.run)
    record_feedback(folder, asked.feedback)
    return _state(folder, [])


def _state(folder: Path, messages: list[LiveMessage]) -> State:
    return State(
        messages=messages,
        choices=dict(read_choices(folder).steps),
        redraws=newest_redraws(folder),
        feedback=read_feedback(folder),
        decided=waiting_for(folder) is None,
    )


def routes() -> list[host.Route]:
    """Return the routes of the live view."""
    return [
        host.Route("GET", f"{PREFIX}/live", AskLive, live_state),
        host.Route("GET", f"{PREFIX}/run", AskRun, run_state),
        host.Route("GET", f"{PREFIX}/stories", AskStories, stories),
        host.Route("POST", f"{PREFIX}/delete-story", AskDelete, delete_story),
        host.Route("GET", f"{PREFIX}/thumbnail", AskThumbnail, thumbnail_of),
        host.Route("POST", f"{PREFIX}/choice", AskChoice, note_choice),
        host.Route("POST", f"{PREFIX}/redraw", AskRedraw, note_redraw),
        host.Route("POST", f"{PREFIX}/decision", AskDecision, note_decision),
        host.Route("POST", f"{PREFIX}/feedback", AskFeedback, note_feedback),
    ]
