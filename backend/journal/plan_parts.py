"""Finished parts of a long plan, so that a stopped planner does not have to write them again.

Each reply is stored under a key of everything that led to it, like an image or a verdict. So nothing has to
be invalidated: another request, agent, seed or outline leads to other keys. The parts are removed once the
plan is complete, since the plan itself is stored then.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ..types import Text, Value
from ..types.roles import PartStore
from .records.calls import Digest, Key
from .records.run_files import RunFiles

FOLDER = "planning"
"""Name of the sub-folder in the run folder."""


class QuestionKey(Key):
    """A planner (as in `Identities`) and the digest of its input."""

    planner: Text
    question: Digest


class WrittenPart(Value):
    """A reply that was parsed, or that was cut off so that its steps were requested in halves."""

    key: QuestionKey
    reply: Text


class PlanParts(PartStore):
    """The stored replies, in a folder that is created with the first."""

    def __init__(self, folder: str | Path) -> None:
        self._files = RunFiles(folder)

    def reply(self, planner: str, question: str) -> str | None:
        """Return the stored reply to this input, if there is one.

        Raises:
            JournalError: The file is damaged.
        """
        key = QuestionKey(planner=planner, question=question)
        hint = "Delete it; that part of the plan is then planned again."
        found = self._files.read_model(WrittenPart, f"{key.digest}.json", hint=hint)
        return found.reply if found is not None and found.key == key else None

    def keep(self, planner: str, question: str, reply: str) -> None:
        """Store a reply.

        Raises:
            JournalError: The file cannot be written.
        """
        key = QuestionKey(planner=planner, question=question)
        self._files.write_model(WrittenPart(key=key, reply=reply), f"{key.digest}.json")

    def clear(self) -> None:
        """Remove all replies, since the plan is complete.

        Raises:
            JournalError: A file cannot be deleted.
        """
        folder = self._files.folder
        if not folder.is_dir():
            return
        self._files.sweep()
        for path in sorted(folder.glob("*.json")):
            self._files.remove(path.name)
        # The folder stays if the user put other files there.
        with suppress(OSError):
            folder.rmdir()
