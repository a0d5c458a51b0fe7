"""Messages to the browser while a story is generated: small, under one event name, with size limits.

A message replaces the previous one with its key (the run, a step, an attempt), so the newest of every key
together are the whole state. A browser that connects later gets these. Nothing is replayed, and a message
that comes twice or late (`seq`) changes nothing. Messages name images by digest; the host serves the files in
the run folder.

They are created from the loop's events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from ...core.pictures import Picture
from ...core.types import (
    Attempt,
    CheckedItem,
    FindingKind,
    RunSettings,
    Spent,
    Step,
    StepResult,
    StopReason,
    StoryCheck,
)
from ...story.journal.waiting import Waiting
from ...story.loop.events import AttemptStarted
from ...story.outcomes import AttemptOutcome, Lack, Tone, outcome, stop_sentence, tone_of, tone_of_attempt
from ..feedback_log import Feedback
from ..report.export_options import findings_of
from ..report.run_report import changes, reasoning_alone

PROMPT_BYTES = 1200
PIECES_BYTES = 1800
LINE_BYTES = 400

Pieces = list[tuple[Literal["same", "ins", "del"], str]]


def marked(before: str, after: str) -> Pieces:
    """Return the later prompt with insertions and deletions marked, or unmarked if that is too long."""
    old, new = clip(before, PROMPT_BYTES), clip(after, PROMPT_BYTES)
    pieces: Pieces = [(piece.kind, piece.text) for piece in changes(old, new)]
    if len(json.dumps(pieces)) > PIECES_BYTES:
        return [("same", new)]
    return pieces


def clip(text: str, limit: int) -> str:
    """Return the text, cut with an ellipsis if its JSON has more than `limit` bytes."""
    if len(text) * 6 <= limit or len(json.dumps(text)) <= limit:
        return text
    room = limit - len(json.dumps(" …"))
    for index, character in enumerate(text):
        room -= len(json.dumps(character)) - 2
        if room < 0:
            return text[:index] + " …"
    return text


WORDS_BYTES = 4500
WORDS_MESSAGES = 16
FIRST_PAUSE = 0.25
LONGER = 1.3


class StreamedText:
    """Collects a critic's text and decides when to send which part."""

    def __init__(self) -> None:
        self._all, self._messages, self._bytes = "", 0, 0
        self._next, self._pause = 0.0, FIRST_PAUSE
        self.sent = 0

    @property
    def sent_text(self) -> str:
        """The text sent so far."""
        return self._all[: self.sent]

    def add(self, text: str, now: float) -> str:
        """Add text and return the part to send now, often ""."""
        self._all += text
        if now < self._next or self._messages >= WORDS_MESSAGES or self._bytes >= WORDS_BYTES:
            return ""
        fresh = self._all[self.sent :]
        due = clip(fresh, WORDS_BYTES - self._bytes)
        self.sent += len(fresh) if due == fresh else len(due)
        self._messages += 1
        self._bytes += WORDS_BYTES if due != fresh else len(json.dumps(due))
        self._next, self._pause = now + self._pause, self._pause * LONGER
        return due


EVENT = "interleave-thinker"
VERSION = 1
WAITING = "interleave_waiting"
"""Key of a node's display with what its run waits for (`WaitingShown`), for programs that decide."""


class MessagePart(BaseModel):
    """Base of all messages and their parts."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ShownPart(MessagePart):
    """Base of what a message shows. Fields in `omitted` are left out of the many messages without them."""

    omitted: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_omitted(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {
            name: one for name, one in fields(self).items() if name not in self.omitted or getattr(self, name)
        }

    @property
    def key(self) -> str:
        """Key of the message, such as "attempt 1 0"; a newer one with the same key replaces it."""
        names = (name for name in ("kind", "step", "attempt") if name in type(self).model_fields)
        return " ".join(str(getattr(self, name)) for name in names)


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


class RunShown(ShownPart):
    """The whole run: name, progress (share 0..1), a line of text, and after its end the incomplete steps.

    With status `incomplete`, the run ended without a cancel and the next run can complete it. `prompt` is the
    id of the host's prompt, `waiting` what the run waits for, `times` what agents and generator needed.
    """

    omitted = ("waiting", "times")
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
    times: dict[str, Spent] = {}


class StepShown(ShownPart):
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


class AttemptShown(ShownPart):
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

    omitted = ("checked",)
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


class WordsShown(ShownPart):
    """A part of the critic's text while it is generated; `at` is the character where it starts."""

    kind: Literal["words"] = "words"
    step: int
    attempt: int
    at: int
    text: str


class FindingShown(MessagePart):
    """What a story check found about the image of an attempt (from 1)."""

    step: int
    attempt: int
    kind: FindingKind
    problem: str


class CheckShown(ShownPart):
    """The newest story check: its findings about images of the run, and the step that it reopened.

    `more` is the number of findings that are left out, and `warning` says why the story was not checked.
    """

    kind: Literal["check"] = "check"
    findings: tuple[FindingShown, ...] = ()
    more: int = 0
    reopened: int | None = None
    warning: str = ""


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


REASONING_BYTES = 2800
ENHANCED_BYTES = 540
MOST_FINDINGS = 12


def waiting_shown(waiting: Waiting | None) -> WaitingShown | None:
    """Return the message part for what a run waits for."""
    return waiting and WaitingShown(step=waiting.step, digest=waiting.digest)


def waiting_in_display(waiting: Waiting | None) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the addition to a node's display for a run that waits for the user."""
    shown = waiting_shown(waiting)
    return {WAITING: (shown.model_dump(),)} if shown else {}


def step_shown(step: Step) -> StepShown:
    """Return the message for a step that was not reached yet."""
    return StepShown(
        step=step.number,
        name=clip(step.name or step.instruction or step.prompt or "", 200),
        text=clip(step.auxiliary_text or "", LINE_BYTES),
        prompt=clip(step.prompt or "", LINE_BYTES),
    )


def step_done(result: StepResult) -> StepShown:
    """Return the message for a finished step, with the reason."""
    return step_shown(result.step).model_copy(
        update={
            "status": "done",
            "tone": tone_of(result),
            "sentence": stop_sentence(result),
            "chosen": result.chosen,
            "picked": result.stop_reason is StopReason.picked,
            "approved": result.approved,
        }
    )


def attempt_begun(event: AttemptStarted, before: str) -> AttemptShown:
    """Return the message for an attempt that is being generated; `before` is the previous prompt."""
    return AttemptShown(
        step=event.step.number,
        attempt=event.attempt,
        status="drawing",
        prompt=marked(before, event.prompt),
        clipped=clip(event.prompt, PROMPT_BYTES) != event.prompt,
        seed=event.seed,
        redraw=event.redraw.number if event.redraw and event.redraw.by == "user" else 0,
        checked=event.redraw is not None and event.redraw.by != "user",
    )


def attempt_drawn(begun: AttemptShown, attempt: Attempt, reused: bool, of: int) -> AttemptShown:
    """Return the message with the image, one of `of` generated together, or with the error."""
    shown: dict[str, Any] = {"status": "judging"}
    if attempt.image is None:
        shown = {"status": "done", "outcome": AttemptOutcome.failed.value, "tone": "bad"}
    shown |= {"source": image_shown(attempt.source), "image": image_shown(attempt.image)}
    shown |= {"reused": reused, "place": attempt.place, "of": of, **_end(attempt)}
    return begun.model_copy(update=shown)


def attempt_done(drawn: AttemptShown, attempt: Attempt, settings: RunSettings) -> AttemptShown:
    """Return the message with the critic's verdict, if there is one."""
    what, verdict, enhancement = outcome(attempt, settings), attempt.verdict, attempt.enhancement
    shown: dict[str, Any] = {"status": "done", "outcome": what.label, "tone": tone_of_attempt(what)}
    if enhancement:
        shown["enhanced"] = clip(enhancement.warning or enhancement.prompt, ENHANCED_BYTES)
    if verdict:
        shown |= {"probability": verdict.probability, "items": verdict.items}
        shown["reasoning"] = clip(reasoning_alone(verdict), REASONING_BYTES)
        if verdict.refined_prompt not in ("", attempt.prompt):
            shown["refined"] = marked(attempt.prompt, verdict.refined_prompt)
    return drawn.model_copy(update=shown | _end(attempt))


def _end(attempt: Attempt) -> dict[str, Any]:
    error = clip(attempt.error.message, LINE_BYTES) if attempt.error else ""
    return {"error": error, "seconds": round(attempt.seconds, 3)}


def check_shown(check: StoryCheck, attempts: Iterable[AttemptShown]) -> CheckShown | None:
    """Return the message for a story check, `None` if it is about images that the run no longer has.

    Args:
        check: The check.
        attempts: The attempts of the run, as they are shown.
    """
    numbers = {
        (one.step, one.image.digest): one.attempt + 1
        for one in sorted(attempts, key=lambda one: -one.attempt)
        if one.image
    }
    known = [
        FindingShown(step=one.step, attempt=number, kind=one.kind, problem=clip(one.problem, LINE_BYTES))
        for one, number in findings_of(check, numbers)
    ]
    if not (known if check.findings else check.images.items() <= numbers.keys()):
        return None
    return CheckShown(
        findings=tuple(known[:MOST_FINDINGS]),
        more=len(known[MOST_FINDINGS:]),
        reopened=check.reopened,
        warning=clip(check.warning, LINE_BYTES),
    )


def image_shown(picture: Picture | None) -> LiveImage | None:
    """Return the reference to an image in a message, `None` for no image."""
    return picture and LiveImage(digest=picture.digest, width=picture.size[0], height=picture.size[1])
