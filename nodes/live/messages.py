"""What is sent to the browser while a story is drawn: small messages under one event name, and the bounds
that keep them small.

Decision: a message replaces the one before under its key (the run, a step, an attempt), so the newest
of every key together are the whole state. Who connects in the middle is given these; nothing has to be
replayed and a message that comes twice or late (`seq`) changes nothing. Images are not in messages: they are
named by digest, and their files lie in the run's folder, which the host serves.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ...backend.feedback.log import Feedback
from ...backend.loop.events import AttemptStarted
from ...backend.pictures import Picture
from ...backend.report.completeness import Lack
from ...backend.report.outcomes import AttemptOutcome, Tone, outcome, stop_sentence, tone_of, tone_of_attempt
from ...backend.report.prompt_diff import changes
from ...backend.report.reasoning import reasoning_shown
from ...backend.types import Attempt, RunSettings, Step, StepResult, StopReason

EVENT = "interleave-thinker"
VERSION = 1
PROMPT_BYTES = 1200
PIECES_BYTES = 1800
REASONING_BYTES = 2800
LINE_BYTES = 400

Pieces = list[tuple[Literal["same", "ins", "del"], str]]


class MessagePart(BaseModel):
    """Base of all messages and their parts."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LiveImage(MessagePart):
    """A picture of the run's folder: its digest is the file's name, `<digest>.png`."""

    digest: str
    width: int
    height: int


class RunShown(MessagePart):
    """The run as a whole: where its pictures are, how far it is (share 0..1), how it goes in a line of text,
    and once it has ended the steps that are not complete, by what they lack.

    `incomplete`: it ended by itself, and the next run can do more. `prompt` is the id of the host's prompt
    that it is part of.
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

    @property
    def key(self) -> str:
        return self.kind


class StepShown(MessagePart):
    """A step of the plan and how it stands."""

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

    @property
    def key(self) -> str:
        return f"step {self.step}"


class AttemptShown(MessagePart):
    """An attempt: its prompt with what changed since the one before, its image, the critic's verdict.

    `clipped`: the prompt is longer than what is shown. `refined`: what the critic would have drawn instead.
    `place` (from 0) among the `of` images that its draw gave. `redraw`: number of the redraw that a person
    asked for, 0 for the loop's own attempts.
    """

    kind: Literal["attempt"] = "attempt"
    step: int
    attempt: int
    status: Literal["drawing", "judging", "done"]
    prompt: Pieces
    clipped: bool = False
    seed: int
    reused: bool = False
    source: LiveImage | None = None
    image: LiveImage | None = None
    outcome: str = ""
    tone: Tone = "quiet"
    probability: float | None = None
    reasoning: str = ""
    refined: Pieces = []
    error: str = ""
    seconds: float = 0.0
    place: int = 0
    of: int = 1
    redraw: int = 0

    @property
    def key(self) -> str:
        return f"attempt {self.step} {self.attempt}"


class WordsShown(MessagePart):
    """The critic's tokens as they come: `text` belongs at character `at` of all its text on this
    attempt."""

    kind: Literal["words"] = "words"
    step: int
    attempt: int
    at: int
    text: str

    @property
    def key(self) -> str:
        return f"words {self.step} {self.attempt}"


Shown = Annotated[RunShown | StepShown | AttemptShown | WordsShown, Field(discriminator="kind")]


class LiveMessage(MessagePart):
    """A message on its way: `id` names one execution of one node, `seq` counts its messages."""

    version: Literal[1] = VERSION
    id: str
    seq: int
    node: str
    workflow: str | None = None
    shown: Shown


class State(MessagePart):
    """The newest message of every key; what people decided by step number (images picked for the next run,
    the number of the newest redraw that was asked for); their feedback."""

    version: Literal[1] = VERSION
    messages: list[LiveMessage] = []
    choices: dict[int, str] = {}
    redraws: dict[int, int] = {}
    feedback: list[Feedback] = []


def step_shown(step: Step) -> StepShown:
    """A step that was not reached yet."""
    return StepShown(
        step=step.number,
        name=clip(step.name or step.instruction or step.prompt or "", 200),
        text=clip(step.auxiliary_text or "", LINE_BYTES),
        prompt=clip(step.prompt or "", LINE_BYTES),
    )


def step_done(result: StepResult) -> StepShown:
    """A step that is over, with the reason."""
    return step_shown(result.step).model_copy(
        update={
            "status": "done",
            "tone": tone_of(result),
            "sentence": stop_sentence(result),
            "chosen": result.chosen,
            "picked": result.stop_reason is StopReason.picked,
        }
    )


def attempt_begun(event: AttemptStarted, before: str) -> AttemptShown:
    """An attempt that is being drawn; `before` is the prompt of the one before it."""
    return AttemptShown(
        step=event.step.number,
        attempt=event.attempt,
        status="drawing",
        prompt=marked(before, event.prompt),
        clipped=clip(event.prompt, PROMPT_BYTES) != event.prompt,
        seed=event.seed,
        redraw=event.redraw.number if event.redraw else 0,
    )


def attempt_drawn(begun: AttemptShown, attempt: Attempt, reused: bool, of: int) -> AttemptShown:
    """The same attempt with its image, one of `of` of its draw, or with the fault that came instead."""
    failed = attempt.image is None
    return begun.model_copy(
        update={
            "status": "done" if failed else "judging",
            "source": image_shown(attempt.source),
            "image": image_shown(attempt.image),
            "reused": reused,
            "outcome": AttemptOutcome.failed.value if failed else "",
            "tone": "bad" if failed else "quiet",
            "error": clip(attempt.error.message, LINE_BYTES) if attempt.error else "",
            "seconds": round(attempt.seconds, 3),
            "place": attempt.place,
            "of": of,
        }
    )


def attempt_done(drawn: AttemptShown, attempt: Attempt, settings: RunSettings) -> AttemptShown:
    """The same attempt with the critic's verdict, if one was asked."""
    what, verdict = outcome(attempt, settings), attempt.verdict
    changed = verdict is not None and verdict.refined_prompt not in ("", attempt.prompt)
    return drawn.model_copy(
        update={
            "status": "done",
            "outcome": what.value,
            "tone": tone_of_attempt(what),
            "probability": verdict.probability if verdict else None,
            "reasoning": clip(reasoning_shown(verdict), REASONING_BYTES),
            "refined": marked(attempt.prompt, verdict.refined_prompt) if verdict and changed else [],
            "error": clip(attempt.error.message, LINE_BYTES) if attempt.error else "",
            "seconds": round(attempt.seconds, 3),
        }
    )


def image_shown(picture: Picture | None) -> LiveImage | None:
    """How an image is named in a message."""
    return picture and LiveImage(digest=picture.digest, width=picture.size[0], height=picture.size[1])


def marked(before: str, after: str) -> Pieces:
    """The later prompt with what was put in and taken out; as a whole where that would be too long to
    send."""
    old, new = clip(before, PROMPT_BYTES), clip(after, PROMPT_BYTES)
    pieces: Pieces = [(piece.kind, piece.text) for piece in changes(old, new)]
    if len(json.dumps(pieces)) > PIECES_BYTES:
        return [("same", new)]
    return pieces


def clip(text: str, limit: int) -> str:
    """The text, cut off with an ellipsis where it would take more than `limit` bytes in JSON as the host
    writes it."""
    if len(text) * 6 <= limit or len(json.dumps(text)) <= limit:
        return text
    room = limit - len(json.dumps(" …"))
    for index, character in enumerate(text):
        room -= len(json.dumps(character)) - 2
        if room < 0:
            return text[:index] + " …"
    return text
