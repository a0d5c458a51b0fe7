"""Messages to the browser while a story is generated: small, under one event name, with size limits.

A message replaces the previous one with its key (the run, a step, an attempt), so the newest of every key
together are the whole state. A browser that connects later gets these. Nothing is replayed, and a message
that comes twice or late (`seq`) changes nothing. Messages name images by digest; the host serves the files in
the run folder.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from ...feedback.log import Feedback
from ...report.completeness import Lack
from ...report.outcomes import Tone
from ...types import CheckedItem, FindingKind
from ...values import written_without
from .clipped_text import Pieces

EVENT = "interleave-thinker"
VERSION = 1


class MessagePart(BaseModel):
    """Base of all messages and their parts."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LiveImage(MessagePart):
    """An image in the run folder; its file is `<digest>.png`."""

    digest: str
    width: int
    height: int


class WaitingShown(MessagePart):
    """What the run waits for: the approval of its plan if `step` is None.

    `digest` is that of the plan, or of the step's image; `None` if the step has no image.
    """

    step: int | None
    digest: str | None


class RunShown(MessagePart):
    """The whole run: name, progress (share 0..1), a line of text, and after its end the incomplete steps.

    With status `incomplete`, the run ended without a cancel and the next run can complete it. `prompt` is the
    id of the host's prompt, `waiting` what the run waits for.
    """

    kind: Literal["run"] = "run"
    run: str
    steps: list[int]
    tries: int
    status: Literal["running", "finished", "incomplete", "cancelled", "failed"]
    share: float = Field(ge=0.0, le=1.0)
    line: str
    missing: dict[Lack, list[int]] = {}
    prompt: str = ""
    waiting: WaitingShown | None = None

    @model_serializer(mode="wrap")
    def _without_waiting(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit `waiting` from the many messages of a run that does not wait."""
        return written_without(fields(self), self, ("waiting",))

    @property
    def key(self) -> str:
        """Key of the message; a newer one with the same key replaces it."""
        return self.kind


class StepShown(MessagePart):
    """A step of the plan and its state."""

    kind: Literal["step"] = "step"
    step: int
    name: str
    text: str
    prompt: str
    status: Literal["waiting", "running", "done"] = "waiting"
    tone: Tone = "quiet"
    sentence: str = ""
    chosen: int | None = None
    picked: bool = False
    approved: bool = False

    @property
    def key(self) -> str:
        """Key of the message; a newer one with the same key replaces it."""
        return f"step {self.step}"


class AttemptShown(MessagePart):
    """An attempt: its prompt with the changes since the previous one, its image and the critic's verdict.

    Attributes:
        clipped: The prompt is longer than the shown part.
        enhanced: Start of the prompt that the image model was given, or why the enhancer's reply was not
            used. "" if the attempt is not done, or if there is no enhancer.
        refined: The critic's refined prompt.
        place: Index of the image, from 0, among the `of` images generated together.
        redraw: Number of the redraw requested by the user, 0 for the loop's own attempts.
        checked: The attempt was requested by the story check.
    """

    kind: Literal["attempt"] = "attempt"
    step: int
    attempt: int
    status: Literal["drawing", "judging", "done"]
    prompt: Pieces
    clipped: bool = False
    enhanced: str = ""
    seed: int
    reused: bool = False
    source: LiveImage | None = None
    image: LiveImage | None = None
    outcome: str = ""
    tone: Tone = "quiet"
    probability: float | None = None
    items: tuple[CheckedItem, ...] = ()
    reasoning: str = ""
    refined: Pieces = []
    error: str = ""
    seconds: float = 0.0
    place: int = 0
    of: int = 1
    redraw: int = 0
    checked: bool = False

    @model_serializer(mode="wrap")
    def _without_checked(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit `checked` from the messages of other attempts, which are many."""
        return written_without(fields(self), self, ("checked",))

    @property
    def key(self) -> str:
        """Key of the message; a newer one with the same key replaces it."""
        return f"attempt {self.step} {self.attempt}"


class WordsShown(MessagePart):
    """A part of the critic's text while it is generated; `at` is the character where it starts."""

    kind: Literal["words"] = "words"
    step: int
    attempt: int
    at: int
    text: str

    @property
    def key(self) -> str:
        """Key of the message; a newer one with the same key replaces it."""
        return f"words {self.step} {self.attempt}"


class FindingShown(MessagePart):
    """What a story check found about the image of an attempt (from 1)."""

    step: int
    attempt: int
    kind: FindingKind
    problem: str


class CheckShown(MessagePart):
    """The newest story check: its findings about images of the run, and the step that it reopened.

    `more` is the number of findings that are left out, and `warning` says why the story was not checked.
    """

    kind: Literal["check"] = "check"
    findings: tuple[FindingShown, ...] = ()
    more: int = 0
    reopened: int | None = None
    warning: str = ""

    @property
    def key(self) -> str:
        """Key of the message; a newer one with the same key replaces it."""
        return self.kind


AnyShown = RunShown | StepShown | AttemptShown | WordsShown | CheckShown
Shown = Annotated[AnyShown, Field(discriminator="kind")]


class LiveMessage(MessagePart):
    """A message: `id` is one execution of one node, `seq` counts its messages."""

    version: Literal[1] = VERSION
    id: str
    seq: int
    node: str
    workflow: str | None = None
    shown: Shown


class State(MessagePart):
    """Newest message of every key, and by step number the user's choices and newest redraws; all feedback.

    `decided`: the run does not wait for a decision, or no longer.
    """

    version: Literal[1] = VERSION
    messages: list[LiveMessage] = []
    choices: dict[int, str] = {}
    redraws: dict[int, int] = {}
    feedback: list[Feedback] = []
    decided: bool = False
