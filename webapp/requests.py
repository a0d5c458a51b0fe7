"""What the page asks for and is shown, in addition to the requests of the live view."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from ..backend.feedback.browser_requests import BrowserRequest, RunName
from ..backend.feedback.live_messages import MessagePart, State
from ..backend.pictures import DIGEST
from ..backend.types import MAX_TEXT
from .models import Chosen, Example, Offer, Role

ExportName = Literal["page", "pdf", "zip", "markdown", "mp4"]
EXPORT_NAMES: tuple[ExportName, ...] = get_args(ExportName)
Pause = Literal["never", "after the plan", "at rejected steps", "every step"]
MAX_WAIT = 25.0


class AskPage(BrowserRequest):
    """Request for what the page offers."""


class AskBoard(BrowserRequest):
    """Request for the running story, answered when it differs from `seen`, or after `wait` seconds.

    Of the live messages with this `id`, the page has those up to `after`.
    """

    seen: str = Field(default="", max_length=40)
    id: str = Field(default="", max_length=40)
    after: int = Field(default=-1, ge=-1)
    wait: float = Field(default=0.0, ge=0.0, le=MAX_WAIT, allow_inf_nan=False)


class AskStory(BrowserRequest):
    """Request for a story."""

    request: str = Field(min_length=1, max_length=MAX_TEXT)
    models: Chosen
    pause: Pause = "never"
    max_attempts: int = Field(default=5, ge=1, le=100)
    seed: int = Field(default=0, ge=0, le=2**48)


class AskAgain(BrowserRequest):
    """Request to continue a story, with another `pause` if it is given."""

    run: RunName
    pause: Pause | None = None


class AskCancel(BrowserRequest):
    """Request to stop the story that is being generated."""

    run: RunName


class AskPicture(BrowserRequest):
    """Request for an image in full size."""

    run: RunName
    picture: str = Field(pattern=DIGEST.pattern)


class AskExport(BrowserRequest):
    """Request to export a story, or for the exported file."""

    run: RunName
    to: ExportName


class PageShown(MessagePart):
    """What the page offers: models by role, exports, an example, and the defaults of a story."""

    models: dict[Role, list[Offer]]
    exports: list[ExportName]
    pause: Pause
    max_attempts: int
    seed: int
    example: Example


class BoardShown(MessagePart):
    """The story that is being generated, or was generated last since the server started.

    Attributes:
        edition: Changes with everything else.
        run: Name of the run. Empty if there was none.
        busy: Whether it is being generated.
        line: What is done before there is a plan.
        error: Why it failed.
        state: Its newest messages. `None` before there is a plan.
    """

    edition: str
    run: Annotated[str, Field(max_length=200)] = ""
    busy: bool = False
    line: str = ""
    error: str = ""
    state: State | None = None


class Exported(MessagePart):
    """An exported file: its name and its size in bytes."""

    name: str
    bytes: int
