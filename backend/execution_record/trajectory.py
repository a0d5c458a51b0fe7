"""A published execution record as a trajectory, so that whatever is done with a run can be done with it.

Decision: what a record does not hold stays empty (seeds, settings, identities); nothing is made up. A white
page before an image is none, as published; an image that is missing becomes a fault of its attempt, as a
failed draw is. The kept attempt is the last accepted one, else the last with an image, as the published loop
keeps it.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from ..answers.plan_shapes import words_of
from ..errors import JournalError
from ..journal.files import first_fault
from ..pictures import Picture
from ..types import (
    Attempt,
    Fault,
    Plan,
    Request,
    RunSettings,
    Step,
    StepResult,
    StopReason,
    Trajectory,
    Verdict,
)
from .reader import Record, RecordEntry, RecordImage

MAX_TOTAL_PIXELS = 1024 * 1024 * 1024
UNTOLD = "(no text)"


def record_trajectory(record: Record) -> Trajectory:
    """The record, of any form, with its pictures. Raises JournalError for an unreadable picture, more
    pictures than MAX_TOTAL_PIXELS, or steps that are no plan."""
    pictures = _Pictures()
    entries: dict[int, list[RecordEntry]] = {}
    for entry in record.entries:
        entries.setdefault(entry.step, []).append(entry)
    try:
        steps = _steps(record, entries)
        results = []
        for step in steps:
            found = entries.get(step.number, [])
            drawn = [entry for entry in found if step.prompt or entry.target]
            if drawn or not step.prompt:
                results.append(_result(step, drawn, pictures, record.ours))
        tries = max((len(result.attempts) for result in results), default=1)
        return Trajectory(
            request=Request(text=record.user_input, images=_request_images(results)),
            plan=Plan(steps=tuple(steps), reasoning=record.reasoning),
            results=tuple(results),
            settings=RunSettings(max_attempts=min(100, max(1, tries))),
        )
    except ValidationError as error:
        raise JournalError(f"The execution record is no run{first_fault(error)}") from error


class _Pictures:
    """Opens a record's images, each file once, up to a bound."""

    def __init__(self) -> None:
        self._opened: dict[str, Picture] = {}
        self._pixels = 0
        self._drawn: set[Path | None] = set()

    def drawn(self, image: RecordImage) -> Picture:
        """A picture that was drawn in the record."""
        self._drawn.add(image.file)
        return self.open(image)

    def before(self, image: RecordImage, ours: bool) -> Picture | None:
        """The picture that was edited; None for a white page that stands for none, as in published
        records."""
        picture = self.open(image)
        return picture if ours or image.file in self._drawn or not picture.is_white else None

    def open(self, image: RecordImage) -> Picture:
        if image.written not in self._opened:
            picture = image.open()
            self._pixels += picture.size[0] * picture.size[1]
            if self._pixels > MAX_TOTAL_PIXELS:
                raise JournalError(
                    f"The record's images have more than {MAX_TOTAL_PIXELS} pixels.", "Scale them down first."
                )
            self._opened[image.written] = picture
        return self._opened[image.written]


def _steps(record: Record, entries: dict[int, list[RecordEntry]]) -> list[Step]:
    steps: dict[int, Step] = {}
    for step in record.plan:
        prompt = step.prompt or _first_prompt(entries.get(step.step_number, []))
        instruction, words = words_of(step.instruction, prompt, step.auxiliary_text)
        steps[step.step_number] = Step(
            number=step.step_number,
            name=step.step_name,
            instruction=instruction,
            prompt=prompt,
            auxiliary_text=words,
        )
    for number, found in entries.items():
        if number not in steps:
            prompt = _first_prompt(found)
            caption = "\n".join(entry.text for entry in found if entry.text) or None
            steps[number] = Step(
                number=number, prompt=prompt, auxiliary_text=caption or (None if prompt else UNTOLD)
            )
    return [steps[number] for number in sorted(steps)]


def _first_prompt(entries: list[RecordEntry]) -> str | None:
    return next((text for one in entries if (text := one.prompt or one.drawn_with)), None)


def _result(step: Step, entries: list[RecordEntry], pictures: _Pictures, ours: bool) -> StepResult:
    attempts: list[Attempt] = []
    for entry in entries:
        prompt = entry.drawn_with or entry.prompt or step.prompt or ""
        judged = entry.success is not None or bool(entry.reasoning or entry.proposed)
        # Beside True the refined prompt is the prompt just used (FORMATS: what an agent answers).
        refined = prompt if entry.success else entry.proposed or ""
        verdict = Verdict(success=entry.success, refined_prompt=refined, reasoning=entry.reasoning)
        fault = None
        if entry.target is None or entry.target.missing:
            words = "No image is recorded." if entry.target is None else f"{entry.target.written} is missing."
            fault = Fault(where="record", message=words)
        source = None if entry.source is None or entry.source.missing else entry.source
        attempts.append(
            Attempt(
                prompt=prompt,
                seed=0,
                source=source and pictures.before(source, ours),
                beside=tuple(pictures.open(one) for one in entry.beside if not one.missing),
                image=None if fault or entry.target is None else pictures.drawn(entry.target),
                verdict=verdict if judged and fault is None else None,
                error=fault,
            )
        )
    chosen = _chosen(attempts)
    return StepResult(
        step=step, attempts=tuple(attempts), chosen=chosen, stop_reason=_reason(attempts, chosen)
    )


def _chosen(attempts: list[Attempt]) -> int | None:
    drawn = [number for number, attempt in enumerate(attempts) if attempt.image]
    right = [number for number in drawn if _accepted(attempts[number])]
    return (right or drawn or [None])[-1]


def _reason(attempts: list[Attempt], chosen: int | None) -> StopReason:
    if not attempts:
        return StopReason.text_only
    if chosen is None:
        return StopReason.error
    if _accepted(attempts[chosen]):
        return StopReason.accepted
    judged = any(attempt.verdict for attempt in attempts)
    return StopReason.attempts_used_up if judged else StopReason.unjudged


def _accepted(attempt: Attempt) -> bool:
    return attempt.verdict is not None and attempt.verdict.success is True


def _request_images(results: list[StepResult]) -> tuple[Picture, ...]:
    """What the first step started from was given with the request, for nothing had been drawn yet."""
    first = next((result for result in results if result.attempts), None)
    source = first.attempts[0].source if first else None
    return () if source is None else (source,)
