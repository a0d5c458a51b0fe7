"""Converts the user's feedback into training rows for a critic: `critic_sft.json` with its images next to it.

The user's verdict overrides the critic's. The row contains the critic's input and the answer that it should
have given. The critic's reasoning is kept if its verdict was already correct, and the corrected prompt comes
from `corrected_prompts`. A row is identified by its question, so later feedback on the same image replaces
the row, and withdrawn feedback removes it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import FailFast, Field, TypeAdapter, ValidationError

from ..agents.critic import critic_message
from ..answers.reading import write_verdict
from ..checklist import named_failures
from ..errors import JournalError, SettingsError
from ..files.bounded_reader import parse_json
from ..journal.journal import FolderLock
from ..journal.run_files import RunFiles, first_fault
from ..pictures import Picture
from ..prompts.prompt_set import PromptSet, default_prompt_set
from ..types import Attempt, Step, Trajectory, Value, Verdict
from .corrected_prompts import CorrectedPrompt, Label, corrected_prompt_for, refined_range
from .log import Feedback
from .sft_row import MARK, SftMessage, SftRow

DATA_FILE = "critic_sft.json"
IMAGES = "images"
MAX_ROWS = 20_000
ROWS = TypeAdapter(Annotated[list[SftRow], FailFast(), Field(max_length=MAX_ROWS)])

_writing = threading.Lock()


class FeedbackData(Value):
    """The data file after feedback was added."""

    path: Path
    rows: int = Field(ge=0, description="Rows in the file now.")
    skipped: int = Field(
        default=0, ge=0, description="Entries about images that the trajectory does not have."
    )


def add_feedback_rows(
    folder: Path, trajectory: Trajectory, words: Sequence[Feedback], prompt_set: PromptSet | None = None
) -> FeedbackData:
    """Write a row for every entry into critic_sft.json, with its images; all of them or none.

    An entry about another image than the one of the trajectory's attempt is skipped. An entry without a
    verdict and without a corrected prompt removes its row. Feedback on later attempts of a step also provides
    corrected prompts for the earlier ones.

    Args:
        folder: Folder of the data file.
        trajectory: The run that the feedback is about.
        words: The feedback.
        prompt_set: Prompt set of the critic to train. Default: the pack's own.

    Raises:
        SettingsError: An attempt cannot be judged.
        AnswerError: A text cannot be part of an answer.
        JournalError: The file is damaged, too large, or cannot be written.
    """
    prompts = prompt_set or default_prompt_set()
    changes: list[tuple[SftRow, tuple[Picture, ...], bool]] = []
    skipped = 0
    for word in words:
        if word.image and word.image != _image_at(trajectory, word):
            skipped += 1
            continue
        step, attempt, image = find_attempt(trajectory, word)
        pictures = (attempt.source or Picture.white(image.size), image)
        verdict = verdict_of_person(attempt, word)
        corrected = _corrected_prompt(trajectory, word, words) if verdict and not verdict.success else None
        row = _row(prompts, pictures, step.prompt or "", attempt.prompt, verdict, corrected)
        changes.append((row, pictures, verdict is not None))
    files = RunFiles(folder)
    with _writing:
        _make(folder)
        lock = FolderLock(Path(folder))
        lock.take()
        try:
            rows = {_question(row): row for row in _read(files)}
            for row, pictures, kept in changes:
                rows.pop(_question(row), None)
                if kept:
                    rows[_question(row)] = row
                    for picture in pictures:
                        _keep(files, picture)
            if len(rows) > MAX_ROWS:
                raise JournalError(
                    f"{str(files.path(DATA_FILE))!r} would have more than {MAX_ROWS} rows.",
                    "Move it and its images to another folder to start a new file.",
                )
            content = [row.written() for row in rows.values()]
            files.write(json.dumps(content, ensure_ascii=False, indent=1).encode() + b"\n", DATA_FILE)
        finally:
            lock.release()
    return FeedbackData(path=files.path(DATA_FILE), rows=len(rows), skipped=skipped)


def find_attempt(trajectory: Trajectory, word: Feedback) -> tuple[Step, Attempt, Picture]:
    """Return the step, the attempt and the image that an entry is about.

    Raises:
        SettingsError: The image does not exist.
    """
    results = {result.step.number: result for result in trajectory.results}
    result = results.get(word.step)
    if result is None:
        known = ", ".join(str(number) for number in results) or "none"
        raise SettingsError(
            f"The run does not have a step {word.step}.", f"Its steps are {known}. Choose one of them."
        )
    if word.attempt >= len(result.attempts):
        count = len(result.attempts)
        raise SettingsError(
            f"Step {word.step} does not have an attempt {word.attempt + 1}.",
            f"Choose one of its {count} attempts.",
        )
    attempt = result.attempts[word.attempt]
    if attempt.image is None or not result.step.prompt:
        lacking = "an image" if attempt.image is None else "a prompt to judge it against"
        raise SettingsError(
            f"Attempt {word.attempt + 1} of step {word.step} does not have {lacking}.",
            "Choose another attempt.",
        )
    return result.step, attempt, attempt.image


def _image_at(trajectory: Trajectory, word: Feedback) -> str | None:
    for result in trajectory.results:
        if result.step.number == word.step and word.attempt < len(result.attempts):
            image = result.attempts[word.attempt].image
            return image.digest if image else None
    return None


def verdict_of_person(attempt: Attempt, word: Feedback) -> Verdict | None:
    """Return the verdict that the critic should have given; `None` if the feedback has no verdict.

    Its refined prompt is the prompt used, which is the correct answer for an accepted image. For a rejected
    image `corrected_prompt_for` finds a better one.
    """
    success = success_of(word)
    if success is None:
        return None
    said = attempt.verdict.reasoning if attempt.verdict and attempt.verdict.success == success else ""
    note = (word.note or "").strip()
    reasoning = note or named_failures(said, () if success else word.false_items)
    return Verdict(success=success, refined_prompt=attempt.prompt, reasoning=reasoning)


def verdict_of_critic(attempt: Attempt) -> Verdict | None:
    """Return the critic's verdict, as a critic learns it; `None` if there is none.

    Its reasoning names the items of the checklist that are not true.
    """
    said = attempt.verdict
    if said is None or said.success is None:
        return None
    failed = [item.text for item in said.items if item.passed is False]
    return said.model_copy(update={"reasoning": named_failures(said.reasoning, failed)})


def success_of(word: Feedback) -> bool | None:
    """Return the user's verdict. Without one, a corrected prompt or a false item rejects the image."""
    wrong = bool((word.better_prompt or "").strip()) or bool(word.false_items)
    return word.accepted if word.accepted is not None else (False if wrong else None)


def _corrected_prompt(trajectory: Trajectory, word: Feedback, words: Sequence[Feedback]) -> CorrectedPrompt:
    """Return the corrected prompt for a rejected attempt.

    It is found from all feedback on the step and from the critic's verdicts on the other attempts.
    """
    result = next(one for one in trajectory.results if one.step.number == word.step)
    given = {
        one.attempt: success_of(one)
        for one in words
        if one.step == word.step and one.image in (None, _image_at(trajectory, one))
    }
    labels = [
        Label(own, True)
        if (own := given.get(number)) is not None
        else Label(attempt.verdict.success if attempt.verdict else None)
        for number, attempt in enumerate(result.attempts)
    ]
    return corrected_prompt_for(result.attempts, labels, word.attempt, word.better_prompt)


def _row(
    prompts: PromptSet,
    pictures: Sequence[Picture],
    original: str,
    used: str,
    verdict: Verdict | None,
    corrected: CorrectedPrompt | None,
) -> SftRow:
    message = critic_message(prompts, pictures, original, used)
    question = "".join(MARK if isinstance(part, Picture) else part for part in message.content)
    if verdict and corrected:
        verdict = verdict.model_copy(update={"refined_prompt": corrected.prompt})
    answer = write_verdict(verdict, prompts.verdict_first) if verdict else ""
    unknown = [refined_range(answer)] if corrected and corrected.source == "none" else []
    turns = [SftMessage(role="user", content=question), SftMessage(role="assistant", content=answer)]
    images = [f"{IMAGES}/{picture.digest}.png" for picture in pictures]
    try:
        return SftRow(messages=turns, images=images, not_learned=unknown)
    except ValidationError as error:
        raise SettingsError(f"The attempt cannot be a training row{first_fault(error)}") from error


def _question(row: SftRow) -> tuple[str, ...]:
    return (*(message.content for message in row.messages[:-1]), *row.images)


def _read(files: RunFiles) -> list[SftRow]:
    data = files.read(DATA_FILE)
    if data is None:
        return []
    content = parse_json(data, JournalError, repr(str(files.path(DATA_FILE))))
    try:
        return ROWS.validate_python(content)
    except ValidationError as error:
        path = str(files.path(DATA_FILE))
        raise JournalError(f"{path!r}{first_fault(error)}", "Correct the file, or move it.") from error


def _keep(files: RunFiles, picture: Picture) -> None:
    name = f"{picture.digest}.png"
    if not files.path(IMAGES, name).exists():
        files.write(picture.png(), IMAGES, name)


def _make(folder: Path) -> None:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JournalError(
            f"Cannot create {str(folder)!r} ({error.strerror or error}).", "Choose another folder."
        ) from error
