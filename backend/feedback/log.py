"""What people say of a run's attempts: `feedback.jsonl` in the run's folder, one line a word.

Decision: a word is only ever appended, in one write under a lock, so that a browser, a node, the command line
and a person with an editor can all speak while a run is going on, and what was said before can be traced;
whoever reads takes the last word on every attempt. A line that a killed process left half written counts as
never said.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from ..errors import JournalError
from ..files.atomic import append_line
from ..files.bounded_reader import parse_json
from ..files.lock import SystemLock
from ..journal.files import RunFiles, first_fault
from ..journal.journal import RUN, TRAJECTORY
from ..journal.picks import planned_prompt
from ..pictures import DIGEST
from ..types import MAX_ATTEMPTS, MAX_STEPS, Several, Value

FEEDBACK = "feedback.jsonl"
MAX_FILE = 16 * 1024 * 1024
MAX_NOTE = 20_000
MAX_VALUES = 3 * MAX_NOTE
"""In one line; the commas of its texts are counted too."""
MAX_NUMBER = 1_000_000

LOCK = "feedback.lock"
WAIT = 10.0
"""Seconds that a word waits for another one to be written."""

Words = Annotated[str, Field(max_length=MAX_NOTE)]


class Feedback(Value):
    """A person's word on one attempt. One in which nothing is said takes back what was said before."""

    step: int = Field(ge=1, le=MAX_NUMBER, description="Number of the step in the plan.")
    attempt: int = Field(ge=0, le=MAX_NUMBER, description="Index of the attempt, from 0.")
    accepted: bool | None = Field(default=None, description="Whether the image is right; empty: not said.")
    better_prompt: Words | None = Field(default=None, description="What should have been drawn with instead.")
    note: Words | None = Field(default=None, description="Why; the critic learns it as its reasoning.")
    image: str | None = Field(
        default=None,
        pattern=DIGEST.pattern,
        description="Digest of the image that the word is about: the attempt may be drawn anew later.",
    )

    @property
    def says_something(self) -> bool:
        """Whether there is a word, a better prompt or a note."""
        return self.accepted is not None or bool(self.better_prompt) or bool(self.note)


def record_feedback(run: Path, feedback: Feedback) -> None:
    """Append a word to a run's folder, with the image that it is about if the run has ended.

    Raises JournalError if the folder holds no run, the run no such attempt, or the file cannot grow.
    """
    files = RunFiles(run)
    if not files.path(RUN).is_file():
        raise JournalError(
            f"{str(run)!r} holds no run.", "Feedback is kept in the folder of the run it is about."
        )
    planned_prompt(files, feedback.step)  # an image may be of another step, and is not looked for
    if feedback.image is None:
        feedback = feedback.model_copy(update={"image": _image_of(files, feedback)})
    path = files.path(FEEDBACK)
    line = feedback.model_dump_json(exclude_none=True)
    try:
        with one_writer(files):
            size = path.stat().st_size if path.exists() else 0
            if size + len(line.encode()) >= MAX_FILE:
                raise JournalError(
                    f"{str(path)!r} is full ({MAX_FILE} bytes).", "Remove lines that are outdated."
                )
            append_line(path, line, JournalError, "Feedback")
    except OSError as error:
        raise JournalError(f"{str(path)!r} cannot be written ({error.strerror or error}).") from error


@contextmanager
def one_writer(files: RunFiles, wait: float = WAIT) -> Iterator[None]:
    """Have the words of a run to oneself; raises JournalError if another program has them for longer than
    `wait` seconds."""
    busy = JournalError(
        f"The words in {str(files.folder)!r} are being written by another program.", "Say it again."
    )
    with SystemLock(files.path(LOCK)).held(busy, wait):
        yield


def read_feedback(run: Path) -> list[Feedback]:
    """The last word on every attempt, by step and attempt; empty if nothing was said.

    Raises JournalError that names the line if the file is damaged.
    """
    files = RunFiles(run)
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
            raise JournalError(fault, "Correct or remove that line.") from error
        last[word.step, word.attempt] = word
    return [last[key] for key in sorted(last) if last[key].says_something]


class _Attempt(BaseModel):
    image: Annotated[str, Field(max_length=64)] | None = None


class _Step(BaseModel):
    number: int


class _Result(BaseModel):
    step: _Step
    attempts: Several[_Attempt] = Field(default=(), max_length=MAX_ATTEMPTS)


class _Ended(BaseModel):
    """What is read of trajectory.json to find an attempt; its pictures stay closed."""

    results: Several[_Result] = Field(default=(), max_length=MAX_STEPS)


def _image_of(files: RunFiles, word: Feedback) -> str | None:
    ended = files.read_model(_Ended, TRAJECTORY, hint="Delete it: a run is also read from its records.")
    if ended is None:
        return None
    for result in ended.results:
        if result.step.number == word.step and word.attempt < len(result.attempts):
            return result.attempts[word.attempt].image
    raise JournalError(
        f"The run in {str(files.folder)!r} has no attempt {word.attempt + 1} of step {word.step}."
    )


def _shifted(line: bytes) -> bool:
    """Whether a line is the beginning of one of ours, cut off before its end."""
    return line.startswith(b'{"step":') and not line.rstrip().endswith(b"}")
