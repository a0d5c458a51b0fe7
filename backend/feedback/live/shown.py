"""Creates the messages to the browser (messages.py) from the loop's events, within size limits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...journal.waiting import Waiting
from ...loop.events import AttemptStarted
from ...pictures import Picture
from ...report.outcomes import AttemptOutcome, outcome, stop_sentence, tone_of, tone_of_attempt
from ...report.reasoning import reasoning_alone
from ...types import Attempt, RunSettings, Step, StepResult, StopReason, StoryCheck
from .clipped_text import LINE_BYTES, PROMPT_BYTES, clip, marked
from .messages import AttemptShown, CheckShown, FindingShown, LiveImage, StepShown, WaitingShown
from .run_folders import WAITING

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
    """Return the message with the critic's verdict, if there is one."""
    what, verdict = outcome(attempt, settings), attempt.verdict
    changed = verdict is not None and verdict.refined_prompt not in ("", attempt.prompt)
    return drawn.model_copy(
        update={
            "status": "done",
            "outcome": what.label,
            "tone": tone_of_attempt(what),
            "probability": verdict.probability if verdict else None,
            "enhanced": clip(_enhanced(attempt), ENHANCED_BYTES),
            "items": verdict.items if verdict else (),
            "reasoning": clip(reasoning_alone(verdict), REASONING_BYTES),
            "refined": marked(attempt.prompt, verdict.refined_prompt) if verdict and changed else [],
            "error": clip(attempt.error.message, LINE_BYTES) if attempt.error else "",
            "seconds": round(attempt.seconds, 3),
        }
    )


def _enhanced(attempt: Attempt) -> str:
    return (attempt.enhancement.warning or attempt.enhancement.prompt) if attempt.enhancement else ""


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
    found = [(one, numbers.get((one.step, check.images.get(one.step, "")))) for one in check.findings]
    known = [
        FindingShown(step=one.step, attempt=number, kind=one.kind, problem=clip(one.problem, LINE_BYTES))
        for one, number in found
        if number is not None
    ]
    if not (known if found else check.images.items() <= numbers.keys()):
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
