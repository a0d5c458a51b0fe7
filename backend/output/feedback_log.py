"""The user's feedback on the attempts of a run: `feedback.jsonl` in the run folder, one entry per line.

Entries are only appended, each in one write under a lock. So a browser, a node, the command line and a text
editor can all add feedback during a run, and earlier entries can be traced. The last entry for an attempt
counts. A line that a killed process left incomplete is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from ..core.errors import JournalError, first_fault
from ..core.files.atomic import append_line
from ..core.files.bounded_reader import parse_json
from ..core.files.lock import SystemLock
from ..core.pictures import DIGEST
from ..core.types import MAX_ATTEMPTS, MAX_STEPS, Several, Value
from ..core.types.cast import ShortText
from ..core.types.checklist import MAX_ITEMS
from ..story.journal.choices import planned_step
from ..story.journal.run_files import RUN, TRAJECTORY, RunFiles

FEEDBACK = "feedback.jsonl"
MAX_FILE = 16 * 1024 * 1024
MAX_NOTE = 20_000
MAX_VALUES = 3 * MAX_NOTE
"""Maximum number of values in one line; commas in its texts are counted too."""
MAX_NUMBER = 1_000_000

LOCK = "feedback.lock"
WAIT = 10.0
"""Seconds to wait while another entry is being written."""

Words = Annotated[str, Field(max_length=MAX_NOTE)]


class ItemFeedback(Value):
    """The user's verdict on one item of the attempt's checklist.

    Attributes:
        text: Text of the item.
        true: Whether it is true of the image.
    """

    text: ShortText
    true: bool


class Feedback(Value):
    """The user's feedback on one attempt. An empty entry withdraws the earlier feedback.

    Attributes:
        step: Number of the step in the plan.
        attempt: Index of the attempt, from 0.
        accepted: Whether the image is correct; `None`: unknown.
        better_prompt: Corrected prompt for this attempt.
        note: Reason for the verdict. The critic learns it as its reasoning.
        image: Digest of the image, since the attempt may be generated again later.
        items: Verdicts on items of the checklist. A false one rejects the image.
    """

    step: int = Field(ge=1, le=MAX_NUMBER)
    attempt: int = Field(ge=0, le=MAX_NUMBER)
    accepted: bool | None = None
    better_prompt: Words | None = None
    note: Words | None = None
    image: str | None = Field(default=None, pattern=DIGEST.pattern)
    items: tuple[ItemFeedback, ...] | None = Field(default=None, max_length=MAX_ITEMS)

    @property
    def says_something(self) -> bool:
        """Whether the entry has a verdict, a corrected prompt, a note or a verdict on an item."""
        return self.accepted is not None or bool(self.better_prompt or self.note or self.items)

    @property
    def false_items(self) -> list[str]:
        """Texts of the items that are not true."""
        return [item.text for item in self.items or () if not item.true]


def record_feedback(run: Path, feedback: Feedback) -> None:
    """Append an entry to a run's feedback. If the run has ended, the image's digest is added.

    An entry that is equal to the last one for its attempt is not appended again. ComfyUI may run a Feedback
    node again although nothing changed.

    Raises:
        JournalError: The folder does not contain a run, the run does not have the attempt, or the file is
            damaged or cannot be written.
    """
    files = RunFiles(run)
    if not files.path(RUN).is_file():
        raise JournalError(
            f"{str(run)!r} does not contain a run.", "Give the folder of the run that the feedback is about."
        )
    planned_step(files, feedback.step)  # raises if the step does not exist; the image is not checked
    if feedback.image is None:
        feedback = feedback.model_copy(update={"image": _image_of(files, feedback)})
    path = files.path(FEEDBACK)
    line = feedback.model_dump_json(exclude_none=True)
    try:
        with one_writer(files):
            if _last_entries(files).get((feedback.step, feedback.attempt)) == feedback:
                return
            size = path.stat().st_size if path.exists() else 0
            if size + len(line.encode()) >= MAX_FILE:
                raise JournalError(f"{str(path)!r} is full ({MAX_FILE} bytes).", "Remove outdated lines.")
            append_line(path, line, JournalError, "Feedback")
    except OSError as error:
        raise JournalError(
            f"Cannot write {str(path)!r} ({error.strerror or error}).", "Check its permissions."
        ) from error


@contextmanager
def one_writer(files: RunFiles, wait: float = WAIT) -> Iterator[None]:
    """Lock the feedback of a run while it is changed.

    Raises:
        JournalError: Another program holds the lock for longer than `wait` seconds.
    """
    busy = JournalError(
        f"Another program is writing the feedback in {str(files.folder)!r}.", "Save the feedback again."
    )
    with SystemLock(files.path(LOCK)).held(busy, wait):
        yield


def read_feedback(run: Path) -> list[Feedback]:
    """Return the last entry for every attempt, ordered by step and attempt.

    Raises:
        JournalError: The file is damaged. The message names the line.
    """
    last = _last_entries(RunFiles(run))
    return [last[key] for key in sorted(last) if last[key].says_something]


def _last_entries(files: RunFiles) -> dict[tuple[int, int], Feedback]:
    lines = (files.read(FEEDBACK, limit=MAX_FILE) or b"").removeprefix(b"\xef\xbb\xbf").split(b"\n")
    last: dict[tuple[int, int], Feedback] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{str(files.path(FEEDBACK))!r}, line {number}"
        try:
            word = Feedback.model_validate(parse_json(line, JournalError, place, MAX_VALUES))
        except (ValidationError, JournalError) as error:
            if _shifted(line):
                continue
            fault = error.message if isinstance(error, JournalError) else f"{place}{first_fault(error)}"
            raise JournalError(fault, "Correct or remove the line.") from error
        last[word.step, word.attempt] = word
    return last


class _Attempt(BaseModel):
    image: Annotated[str, Field(max_length=64)] | None = None


class _Step(BaseModel):
    number: int


class _Result(BaseModel):
    step: _Step
    attempts: Several[_Attempt] = Field(default=(), max_length=MAX_ATTEMPTS)


class _Ended(BaseModel):
    """The fields of trajectory.json that are read to find an attempt; its images are not opened."""

    results: Several[_Result] = Field(default=(), max_length=MAX_STEPS)


def _image_of(files: RunFiles, word: Feedback) -> str | None:
    ended = files.read_model(_Ended, TRAJECTORY, hint="Delete it: the run is then read from its records.")
    if ended is None:
        return None
    for result in ended.results:
        if result.step.number == word.step and word.attempt < len(result.attempts):
            return result.attempts[word.attempt].image
    raise JournalError(
        f"Step {word.step} of the run in {str(files.folder)!r} does not have an attempt {word.attempt + 1}.",
        "Choose one of its attempts.",
    )


def _shifted(line: bytes) -> bool:
    """Return whether a line is the beginning of an entry that was cut off."""
    return line.startswith(b'{"step":') and not line.rstrip().endswith(b"}")
