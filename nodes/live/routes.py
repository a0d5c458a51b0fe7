"""Routes for the browser: state, list and thumbnails of runs, and the user's choices, redraws and feedback.

Only runs directly in output/interleave-thinker are served (`backend/feedback/live/browser_requests.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ...backend.feedback.live import browser_requests as requests
from ...backend.feedback.live.live_run import LIVE_RUNS
from ...backend.feedback.live.messages import EVENT, State
from .. import host
from ..inputs.run_folder import PARENT

NodeId = Annotated[str, Field(max_length=200)]
PREFIX = f"/{EVENT}"


class AskLive(requests.BrowserRequest):
    """Request for a node's newest run."""

    node: NodeId
    workflow: NodeId | None = None


def live_state(asked: AskLive) -> State:
    """Return the newest run of a node, empty if there was none since the server started."""
    live = LIVE_RUNS.find(asked.node, asked.workflow)
    if live is None:
        return State()
    if live.status == "running" and live.prompt and not host.is_running(live.prompt):
        live.stop()
    # The folder is created with the run's first step, and may have been deleted since.
    return requests.state_of(_runs() / live.run, live.state())


def thumbnail_of(asked: requests.AskThumbnail) -> host.Content:
    """Return a small WebP copy of an image.

    Raises:
        SettingsError: The run or image was not found.
        JournalError: The image is damaged.
    """
    return host.Content(requests.thumbnail_of(_runs(), asked), "image/webp")


def _runs() -> Path:
    return host.output_folder() / PARENT


def _of_runs(answer: Callable[[Path, Any], Any]) -> Callable[[Any], Any]:
    """Return a function of the request only, for the folder of all runs."""
    return lambda asked: answer(_runs(), asked)


def routes() -> list[host.Route]:
    """Return the routes of the live view."""
    return [
        host.Route("GET", f"{PREFIX}/live", AskLive, live_state),
        host.Route("GET", f"{PREFIX}/run", requests.AskRun, _of_runs(requests.run_state)),
        host.Route("GET", f"{PREFIX}/stories", requests.AskStories, _of_runs(requests.stories)),
        host.Route("POST", f"{PREFIX}/delete-story", requests.AskDelete, _of_runs(requests.delete_story)),
        host.Route("GET", f"{PREFIX}/thumbnail", requests.AskThumbnail, thumbnail_of),
        host.Route("POST", f"{PREFIX}/choice", requests.AskChoice, _of_runs(requests.note_choice)),
        host.Route("POST", f"{PREFIX}/redraw", requests.AskRedraw, _of_runs(requests.note_redraw)),
        host.Route("POST", f"{PREFIX}/decision", requests.AskDecision, _of_runs(requests.note_decision)),
        host.Route("POST", f"{PREFIX}/feedback", requests.AskFeedback, _of_runs(requests.note_feedback)),
    ]
