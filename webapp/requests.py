"""What the page asks for and is shown, in addition to the requests of the live view."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, create_model

from ..backend.core.errors import InterleaveError
from ..backend.core.pictures import DIGEST
from ..backend.core.types import MAX_TEXT, RunSettings
from ..backend.core.types.run_settings import Pause
from ..backend.output.live.browser_requests import BrowserRequest, RunName
from ..backend.output.live.live_messages import MessagePart, State
from .models import Chosen, Example, Offer, Role

ExportName = Literal["page", "pdf", "zip", "markdown", "mp4"]
EXPORTS: dict[ExportName, tuple[str, str]] = {
    "page": ("index.html", "text/html"),
    "pdf": ("story.pdf", "application/pdf"),
    "zip": ("story.zip", "application/zip"),
    "markdown": ("story-markdown.zip", "application/zip"),
    "mp4": ("story.mp4", "video/mp4"),
}
"""File in the run folder, and its media type."""
FORM = ("pause", "max_attempts", "seed")
"""Settings of a run that the form has. Their defaults and limits are those of `RunSettings`."""
MAX_WAIT = 25.0


class Refused(InterleaveError):
    """A request that cannot be read, or not be answered now. `status` is its HTTP status."""

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.status = status


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
    """Request for a story. The form (`StoryForm`) adds the settings in FORM."""

    request: str = Field(min_length=1, max_length=MAX_TEXT)
    models: Chosen


StoryForm = create_model(
    "StoryForm",
    __base__=AskStory,
    **{name: (RunSettings.model_fields[name].annotation, RunSettings.model_fields[name]) for name in FORM},  # type: ignore[call-overload]
)
"""What the form sends."""


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


class FormField(MessagePart):
    """A setting in the form: its value at first, and its limits."""

    value: str | int
    least: int | None = None
    most: int | None = None


def form_fields(settings: RunSettings) -> dict[str, FormField]:
    """Return the settings of the form, with the limits of `RunSettings`."""
    found = {}
    for name in FORM:
        marks = RunSettings.model_fields[name].metadata
        least, most = (
            next((getattr(mark, limit) for mark in marks if hasattr(mark, limit)), None)
            for limit in ("ge", "le")
        )
        found[name] = FormField(value=getattr(settings, name), least=least, most=most)
    return found


class PageShown(MessagePart):
    """What the page offers: models by role, exports, an example, and the settings of the form."""

    models: dict[Role, list[Offer]]
    exports: list[ExportName]
    settings: dict[str, FormField]
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
