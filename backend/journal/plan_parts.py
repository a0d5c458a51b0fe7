"""The parts of a long plan that are written while others are not, so that a planner that was stopped is not
asked for them again.

Decision: a reply is kept under everything that it was asked with, like a draw or a verdict, so nothing ever
has to be declared out of date: another request, agent, seed or outline asks other questions. They are removed
once the plan is whole, for then the plan itself is kept.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ..types import Text, Value
from .files import RunFiles
from .store import Digest, Key

FOLDER = "planning"
"""Of a run's folder."""


class QuestionKey(Key):
    """A planner (as in `Identities`) and what it was asked; as a digest."""

    planner: Text
    question: Digest


class WrittenPart(Value):
    """A reply that was read, or that was cut off and whose steps were asked for in halves."""

    key: QuestionKey
    reply: Text


class PlanParts:
    """The replies kept in a folder of their own, which is made with the first. Implements
    agents.long_plan.PartStore."""

    def __init__(self, folder: str | Path) -> None:
        self._files = RunFiles(folder)

    def reply(self, planner: str, question: str) -> str | None:
        """The reply to this question, None if none is kept; raises JournalError for a damaged file."""
        key = QuestionKey(planner=planner, question=question)
        hint = "Delete it; that part of the plan is then written again."
        found = self._files.read_model(WrittenPart, f"{key.digest}.json", hint=hint)
        return found.reply if found is not None and found.key == key else None

    def keep(self, planner: str, question: str, reply: str) -> None:
        """Keep a reply; raises JournalError."""
        key = QuestionKey(planner=planner, question=question)
        self._files.write_model(WrittenPart(key=key, reply=reply), f"{key.digest}.json")

    def clear(self) -> None:
        """Remove all replies: the plan is whole. Raises JournalError."""
        folder = self._files.folder
        if not folder.is_dir():
            return
        self._files.sweep()
        for path in sorted(folder.glob("*.json")):
            self._files.remove(path.name)
        # What a person put there stays.
        with suppress(OSError):
            folder.rmdir()
