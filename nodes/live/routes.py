"""What a browser may ask of the pack's runs: their state and small pictures, and to note a person's choice,
redraw or word.

Decision: a run is named, never given as a path, and only runs directly below output/interleave-thinker are
answered for. Nothing here draws or judges: a choice or a redraw is a line in a file of the run's folder,
which the loop reads, the running one or the next.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ...backend.feedback.log import MAX_NOTE, Feedback, read_feedback, record_feedback
from ...backend.journal.picks import pick, read_choices
from ...backend.journal.redraws import ask_redraw, newest_redraws
from ...backend.loop.replay import load_trajectory
from ...backend.pictures import DIGEST
from .. import host
from ..inputs.run_folder import PARENT, known_run
from .live_run import LIVE_RUNS, replayed
from .messages import EVENT, LiveMessage, State
from .thumbnails import SIZES, THUMBNAILS

NodeId = Annotated[str, Field(max_length=200)]
RunName = Annotated[str, Field(max_length=100)]
PREFIX = f"/{EVENT}"


class BrowserRequest(BaseModel):
    """Base of what comes from the browser."""

    model_config = ConfigDict(extra="forbid")


class AskLive(BrowserRequest):
    """Which node's newest run."""

    node: NodeId
    workflow: NodeId | None = None


class AskRun(BrowserRequest):
    """Which run."""

    run: RunName


class AskChoice(BrowserRequest):
    """Pick an image as a step's result; `picture` None leaves the step to the critic again."""

    run: RunName
    step: int = Field(ge=1)
    picture: str | None = Field(pattern=DIGEST.pattern)


class AskRedraw(BrowserRequest):
    """One more try at a step: with `prompt`, or with that of the try which drew `picture`, or the step's own.
    `feedback` is noted with it."""

    run: RunName
    step: int = Field(ge=1)
    prompt: str | None = Field(default=None, max_length=MAX_NOTE)
    picture: str | None = Field(default=None, pattern=DIGEST.pattern)
    feedback: Feedback | None = None


class AskThumbnail(BrowserRequest):
    """A picture of a run, its longer side `size` pixels or a little more."""

    run: RunName
    picture: str = Field(pattern=DIGEST.pattern)
    size: int = Field(default=SIZES[0], ge=1, le=SIZES[-1])


class AskFeedback(BrowserRequest):
    """Feedback on an attempt of a run; it replaces earlier feedback on that attempt."""

    run: RunName
    feedback: Feedback


def live_state(asked: AskLive) -> State:
    """The newest run of a node, empty if there was none since the server started."""
    live = LIVE_RUNS.find(asked.node, asked.workflow)
    if live is None:
        return State()
    if live.status == "running" and live.prompt and not host.is_running(live.prompt):
        live.stop()
    # The folder comes into being with the run's first step, and may have been deleted since.
    folder = host.output_folder() / PARENT / live.run
    return _state(folder, live.state())


def run_state(asked: AskRun) -> State:
    """A run as its folder has it, finished or not; raises SettingsError, JournalError."""
    folder = known_run(host.output_folder(), asked.run)
    return _state(folder, replayed(asked.run, load_trajectory(folder)).state())


def note_choice(asked: AskChoice) -> State:
    """Write a choice; the answer has all choices of the run and no messages."""
    folder = known_run(host.output_folder(), asked.run)
    pick(folder, asked.step, asked.picture)
    return _state(folder, [])


def note_redraw(asked: AskRedraw) -> State:
    """Ask for a redraw; the answer has the newest redraw of every step and no messages."""
    folder = known_run(host.output_folder(), asked.run)
    if asked.feedback is not None:
        record_feedback(folder, asked.feedback)
    ask_redraw(folder, asked.step, asked.prompt, asked.picture)
    return _state(folder, [])


def thumbnail_of(asked: AskThumbnail) -> host.Content:
    """A small WebP of a picture; raises SettingsError, JournalError."""
    folder = known_run(host.output_folder(), asked.run)
    return host.Content(THUMBNAILS.webp(folder, asked.picture, asked.size), "image/webp")


def note_feedback(asked: AskFeedback) -> State:
    """Write feedback on an attempt; the answer has all feedback on the run and no messages."""
    folder = known_run(host.output_folder(), asked.run)
    record_feedback(folder, asked.feedback)
    return _state(folder, [])


def _state(folder: Path, messages: list[LiveMessage]) -> State:
    return State(
        messages=messages,
        choices=dict(read_choices(folder).steps),
        redraws=newest_redraws(folder),
        feedback=read_feedback(folder),
    )


def routes() -> list[host.Route]:
    """All routes of the pack."""
    return [
        host.Route("GET", f"{PREFIX}/live", AskLive, live_state),
        host.Route("GET", f"{PREFIX}/run", AskRun, run_state),
        host.Route("GET", f"{PREFIX}/thumbnail", AskThumbnail, thumbnail_of),
        host.Route("POST", f"{PREFIX}/choice", AskChoice, note_choice),
        host.Route("POST", f"{PREFIX}/redraw", AskRedraw, note_redraw),
        host.Route("POST", f"{PREFIX}/feedback", AskFeedback, note_feedback),
    ]
