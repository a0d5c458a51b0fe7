"""Outcomes of prompts: one small file in each prompt's folder, and a list of those that failed.

A prompt is done when `execution_record.json` is in its folder, as in the published scripts. Further
information (state, split, generator) is in `sample.json`, which is written before it. A failure records
place, reason and number of attempts, and is retried only on request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ....backend.errors import JournalError
from ....backend.files.atomic import append_line, write_text
from ....backend.files.bounded_reader import read_bytes_if_any
from ....backend.shown_text import one_line
from ....backend.types import StopReason, Trajectory
from .prompt_rows import PromptRow

SAMPLE = "sample.json"
FAILED = "failed{}.jsonl"
MAX_SAMPLE = 1024 * 1024
MAX_FAILED = 1024 * 1024 * 1024
MAX_REASON = 500

State = Literal["whole", "given up", "failed", "stopped"]


class PromptOutcome(BaseModel):
    """Outcome of one prompt.

    The state is `whole` (every step was accepted), `given up` (a step never was, or the attempt limit was
    reached), `failed` (an error at `where`) or `stopped` (the next call resumes it).
    """

    model_config = ConfigDict(extra="ignore")

    id: str
    folder: str
    state: State
    where: str = ""
    reason: str = ""
    tries: int = 1
    generator: str = ""
    category: str = ""
    subcategory: str = ""
    split: str = ""
    language: str = ""
    steps: int = 0
    drawn_steps: int = 0
    draws: int = 0
    right: int = 0
    wrong: int = 0
    unread: int = 0

    @property
    def is_done(self) -> bool:
        """Whether the trajectory is finished."""
        return self.state in ("whole", "given up")


def outcome_of(row: PromptRow, generator: str, trajectory: Trajectory) -> PromptOutcome:
    """Return the outcome of a finished trajectory."""
    results = trajectory.results
    attempts = [attempt for result in results for attempt in result.attempts]
    said = [attempt.verdict.success for attempt in attempts if attempt.verdict]
    good = {StopReason.accepted, StopReason.picked, StopReason.unjudged, StopReason.text_only}
    whole = len(results) == len(trajectory.plan.steps) and all(one.stop_reason in good for one in results)
    faults = [attempt.error for attempt in results[-1].attempts if attempt.error] if results else []
    state: State = "whole" if whole else "failed" if faults else "given up"
    last = results[-1].step.number if results else 0
    given_up = f"step {last} was not accepted" if results and results[-1].stop_reason not in good else ""
    reason = "" if whole else faults[-1].message if faults else given_up or "the attempt limit was reached"
    return noted(
        row,
        state,
        where=faults[-1].where if state == "failed" else "",
        reason=reason,
        generator=generator,
        steps=len(trajectory.plan.steps),
        drawn_steps=sum(bool(result.attempts) for result in results),
        draws=sum(attempt.place == 0 for attempt in attempts),
        right=said.count(True),
        wrong=said.count(False),
        unread=said.count(None),
    )


def noted(row: PromptRow, state: State, reason: str = "", **more: str | int) -> PromptOutcome:
    """Return an outcome of this row."""
    about = row.model_dump(include={"id", "category", "subcategory", "split", "language"})
    return PromptOutcome.model_validate(
        {**about, "folder": row.folder, "state": state, "reason": one_line(reason)[:MAX_REASON], **more}
    )


def write_sample(folder: Path, outcome: PromptOutcome) -> None:
    """Write `sample.json`.

    Raises:
        JournalError: The file cannot be written.
    """
    content = outcome.model_dump(exclude={"where", "tries"})
    write_text(folder / SAMPLE, json.dumps(content, indent=1) + "\n", JournalError, "Sample")


def read_sample(folder: Path) -> PromptOutcome | None:
    """Return the content of `sample.json` in a run's folder, or None.

    Raises:
        JournalError: The file is damaged.
    """
    found = read_bytes_if_any(folder / SAMPLE, MAX_SAMPLE, JournalError, "Sample")
    if found is None:
        return None
    try:
        return PromptOutcome.model_validate_json(found)
    except ValidationError as error:
        raise JournalError(f"{str(folder / SAMPLE)!r} is damaged.", "Delete it.") from error


class FailedList:
    """`failed.jsonl` of an output folder.

    Failures are appended; at the end the file is rewritten with one line per id, sorted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.by_id = self._in_file()

    def _in_file(self) -> dict[str, PromptOutcome]:
        content = read_bytes_if_any(self.path, MAX_FAILED, JournalError, "List of failed prompts") or b""
        found: dict[str, PromptOutcome] = {}
        for line in content.splitlines():
            try:
                one = PromptOutcome.model_validate_json(line)
            except ValidationError:
                continue  # an incomplete line of a killed process
            found[one.id] = one
        return found

    def add(self, outcome: PromptOutcome) -> None:
        """Record a failure, and count the attempts of its id.

        Raises:
            JournalError: The file cannot be written.
        """
        before = self.by_id.get(outcome.id)
        tries = before.tries + 1 if before else 1
        self.by_id[outcome.id] = outcome = outcome.model_copy(update={"tries": tries})
        append_line(self.path, _line(outcome), JournalError, "List of failed prompts")

    def close(self, done: Iterable[str]) -> None:
        """Rewrite the file without finished prompts, including failures of other processes.

        The file is deleted if nothing is left.
        """
        self.by_id = {**self._in_file(), **self.by_id}
        for one in done:
            self.by_id.pop(one, None)
        if self.by_id:
            lines = [_line(self.by_id[one]) for one in sorted(self.by_id)]
            write_text(
                self.path, "".join(f"{line}\n" for line in lines), JournalError, "List of failed prompts"
            )
        else:
            self.path.unlink(missing_ok=True)


def _line(outcome: PromptOutcome) -> str:
    names = {"id", "folder", "state", "where", "reason", "tries"}
    return json.dumps(outcome.model_dump(include=names), ensure_ascii=False)
