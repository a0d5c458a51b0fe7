"""What the page asks for and is shown, in addition to the requests of the live view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from ..backend.core.errors import InterleaveError
from ..backend.core.pictures import DIGEST
from ..backend.core.types import MAX_TEXT, RunSettings
from ..backend.core.types.run_settings import Pause, sides_of
from ..backend.core.types.values import option, setting
from ..backend.output.live.browser_requests import BrowserRequest, RunName
from ..backend.output.live.live_messages import MessagePart, State
from ..backend.story.agents.plan_constraints import PlanConstraints
from ..backend.story.plan_editor.edited_plan import MAX_PLAN_TEXT
from .models import Chosen, Example, Offer, Role

FORM = {
    **{name: RunSettings.model_fields[name] for name in ("pause", "max_attempts", "seed")},
    **{name: PlanConstraints.model_fields[name] for name in ("step_count", "captions", "style")},
}
"""Settings of a story that the form has. Defaults and limits are those of their classes."""
MAX_WAIT = 25.0
MAX_IMAGES = 4
MAX_UPLOAD = 12 * 1024 * 1024
"""Maximum size in bytes of a request with images, which are in base64."""
MAX_IMAGE_PIXELS = 4 * 1024 * 1024
"""Maximum number of pixels of an image. The page scales larger ones down before it sends them."""

Stage = Literal["", "waiting", "planner", "critic", "generator", "planning", "cancelled"]
"""What is done before there is a plan: models are loaded one after another."""


class Refused(InterleaveError):
    """A request that cannot be read, or not be answered now.

    `status` is its HTTP status, `unknown` the words of the request that the planner does not know.
    """

    def __init__(self, status: int, message: str, hint: str = "", unknown: Sequence[str] = ()) -> None:
        super().__init__(message, hint)
        self.status, self.unknown = status, unknown


class PublicSettings(BaseModel):
    """Public try-out."""

    model_config = ConfigDict(title="public")

    public: bool = option(
        "Let everybody try it without a key: each visitor sees only stories of their own, which are deleted "
        "soon, within the limits of the settings `public.*`.",
        False,
    )
    seconds: float = setting("Maximum seconds that a story is generated.", 300.0, gt=0.0)
    steps: int = setting("Maximum number of steps that a visitor may ask for.", 8, ge=1, le=100)
    attempts: int = setting("Maximum attempts per step.", 3, ge=1, le=100)
    side: int = setting("Maximum width and height of images in pixels.", 1024, ge=16)
    letters: int = setting("Maximum characters of a request.", 2000, ge=1, le=MAX_TEXT)
    waiting: int = setting("Maximum number of stories that wait for their turn.", 8, ge=0, le=1000)
    visitors: int = setting("Maximum number of visitors whose stories are kept.", 100, ge=1, le=10_000)
    stay: float = setting(
        "Seconds after a visitor's last request until the stories are deleted.", 600.0, gt=0
    )
    frame: str = setting(
        "Address of a site that may show the page in a frame, such as https://huggingface.co.",
        "",
        pattern=r"^(https://[A-Za-z0-9.-]+)?$",
    )

    def check(self, **given: Any) -> None:
        """Check what a visitor asks for.

        Raises:
            Refused: A value is above its limit.
        """
        sides = sides_of(given["size"]) if given.get("size") else (0,)
        for name, value, most in (
            ("characters of the request", len(given.get("request", "")), self.letters),
            ("steps", given.get("step_count", 0), self.steps),
            ("attempts per step", given.get("max_attempts", 0), self.attempts),
            ("pixels of a side", max(sides), self.side),
        ):
            if value > most:
                raise Refused(400, f"This try-out allows at most {most} {name}, not {value}.")


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
    """Request for a story, with images in base64. The form (`StoryForm`) adds the settings in FORM."""

    request: str = Field(min_length=1, max_length=MAX_TEXT)
    images: list[Annotated[str, Field(max_length=MAX_UPLOAD)]] = Field(default=[], max_length=MAX_IMAGES)
    models: Chosen


StoryForm = create_model(
    "StoryForm",
    __base__=AskStory,
    **{name: (info.annotation, info) for name, info in FORM.items()},  # type: ignore[call-overload]
)
"""What the form sends."""


class AskAgain(BrowserRequest):
    """Request to continue a story, with another `pause` if it is given."""

    run: RunName
    pause: Pause | None = None


class AskCancel(BrowserRequest):
    """Request to stop the story that is being generated."""

    run: RunName


class AskPlan(BrowserRequest):
    """Request for the plan of a story."""

    run: RunName


class AskEdit(AskPlan):
    """Request to use another plan for a story, written as in Edit Plan."""

    text: str = Field(max_length=MAX_PLAN_TEXT)


class AskPicture(BrowserRequest):
    """Request for an image in full size."""

    run: RunName
    picture: str = Field(pattern=DIGEST.pattern)


class AskExport(BrowserRequest):
    """Request to export a story, under a title if it is given, or for the exported file."""

    run: RunName
    to: str = Field(max_length=100)
    title: str = Field(default="", max_length=200)


class FormField(MessagePart):
    """A setting in the form: its value at first, and its limits."""

    value: str | int
    least: int | None = None
    most: int | None = None


def form_fields(
    settings: RunSettings, constraints: PlanConstraints, public: PublicSettings
) -> dict[str, FormField]:
    """Return the settings of the form, with their limits."""
    values = settings.model_dump() | constraints.model_dump()
    limits = {"step_count": public.steps, "max_attempts": public.attempts} if public.public else {}
    found = {}
    for name, info in FORM.items():
        least, most = (
            next((getattr(mark, limit) for mark in info.metadata if hasattr(mark, limit)), None)
            for limit in ("ge", "le")
        )
        value, most = values.get(name, info.default), limits.get(name, most)
        found[name] = FormField(value=min(value, most) if name in limits else value, least=least, most=most)
    return found


class PageShown(MessagePart):
    """What the page offers.

    Attributes:
        models: Models by role, the default first.
        exports: Formats of exports.
        settings: Settings of the form.
        example: A request for the default models.
        command: Command that starts the app with real models. "" for visitors.
        minutes: Minutes after which a visitor's stories are deleted. 0: they are kept.
    """

    models: dict[Role, list[Offer]]
    exports: list[str]
    settings: dict[str, FormField]
    example: Example
    command: str
    minutes: int = 0


class BoardShown(MessagePart):
    """The story that is being generated, or was generated last since the server started.

    Attributes:
        edition: Changes with everything else.
        run: Name of the run. Empty if there was none.
        busy: Whether it is being generated.
        stage: What is done before there is a plan.
        before: Number of stories that are generated before this one.
        past: Seconds since the stage, or the first step, began.
        left: Estimated seconds until the stage, or the story, ends. `None` if unknown.
        error: Why it failed.
        state: Its newest messages. `None` before there is a plan.
    """

    edition: str
    run: Annotated[str, Field(max_length=200)] = ""
    busy: bool = False
    stage: Stage = ""
    before: int = 0
    past: float = 0.0
    left: float | None = None
    error: str = ""
    state: State | None = None


class PlanShown(MessagePart):
    """A plan as Edit Plan shows it, what the plan check finds, and when the story waits for the user."""

    plan: dict[str, Any]
    findings: list[dict[str, Any]]
    pause: Pause


class Exported(MessagePart):
    """An exported file: its name and its size in bytes."""

    name: str
    bytes: int
