"""Converts an execution record to a trajectory, so that it can be used like a run.

What a record does not contain stays empty (seeds, settings, identities). A white image before a step means
text-to-image, as published. A missing image becomes an error of its attempt, like a failed image. The last
accepted attempt is kept, else the last with an image, as in the published loop.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from ...core.answers.other_forms import words_of
from ...core.errors import JournalError, first_fault
from ...core.pictures import Picture
from ...core.types import (
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
    """Return the trajectory of a record of any form, with its images.

    Raises:
        JournalError: An image cannot be read, the images have more than `MAX_TOTAL_PIXELS` pixels, or the
            steps are not a valid plan.
    """
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
            plan=Plan(steps=tuple(steps), reasoning=record.reasoning, cast=record.cast),
            results=tuple(results),
            settings=RunSettings(max_attempts=min(100, max(1, tries))),
        )
    except ValidationError as error:
        raise JournalError(
            f"The execution record is not a valid run{first_fault(error)}", "Correct the file."
        ) from error


class _Pictures:
    """Opens the images of a record, each file once, up to a limit."""

    def __init__(self) -> None:
        self._opened: dict[str, Picture] = {}
        self._pixels = 0
        self._drawn: set[Path | None] = set()

    def drawn(self, image: RecordImage) -> Picture:
        """Return an image that was generated in the record."""
        self._drawn.add(image.file)
        return self.open(image)

    def before(self, image: RecordImage, ours: bool) -> Picture | None:
        """Return the source image; `None` for a white image that marks text-to-image in published records."""
        picture = self.open(image)
        return picture if ours or image.file in self._drawn or not picture.is_white else None

    def open(self, image: RecordImage) -> Picture:
        """Return an image.

        Raises:
            JournalError: The image cannot be read, or the images have too many pixels together.
        """
        if image.written not in self._opened:
            picture = image.open()
            self._pixels += picture.size[0] * picture.size[1]
            if self._pixels > MAX_TOTAL_PIXELS:
                raise JournalError(
                    f"The record's images have more than {MAX_TOTAL_PIXELS} pixels.", "Scale them down."
                )
            self._opened[image.written] = picture
        return self._opened[image.written]


def _steps(record: Record, entries: dict[int, list[RecordEntry]]) -> list[Step]:
    steps: dict[int, Step] = {}
    for step in record.plan:
        prompt = step.prompt or _first_prompt(entries.get(step.step_number, [])) or step.prompt
        instruction, words = words_of(step.instruction, prompt, step.auxiliary_text)
        steps[step.step_number] = Step(
            number=step.step_number,
            name=step.step_name,
            instruction=instruction,
            prompt=prompt,
            auxiliary_text=words,
            cast=step.cast,
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
        # For an accepted image the refined prompt is the prompt used (docs/reference/file-formats.md).
        refined = prompt if entry.success else entry.proposed or ""
        verdict = Verdict(success=entry.success, refined_prompt=refined, reasoning=entry.reasoning)
        fault = None
        if entry.target is None or entry.target.missing:
            missing = entry.target.written if entry.target else ""
            words = f"{missing} is missing." if missing else "The record does not name an image."
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
    """Return the request's images: the source image of the first step, as it was not generated."""
    first = next((result for result in results if result.attempts), None)
    source = first.attempts[0].source if first else None
    return () if source is None else (source,)
