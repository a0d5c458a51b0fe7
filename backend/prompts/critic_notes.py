"""Critic's notes: corrections from a user's feedback that a critic reads before every question.

A note names the request, the right verdict and its reason. Notes have no images: the critic sees only
the two images that it judges. They come first in the message, since they are the same for all questions and
a cache can keep the beginning. `feedback notes` chooses and measures them; a file may also be written by
hand. Their digest is part of the critic's identity.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from ..errors import SettingsError
from ..files.atomic import write_text
from ..files.bounded_reader import read_json
from ..values import Several, Value

NOTES = "critic_notes.json"
FORMAT = "interleave-critic-notes"
VERSION = 1
MAX_NOTES = 30
MAX_WORDS = 1_000
"""Maximum length of a text in a note, in characters."""
MAX_BYTES = 1024 * 1024
BEFORE = (
    "The user of this system has corrected earlier verdicts. The notes show what counts as an error for this "
    "user and what does not. Each note is about other images, which are not shown."
)
AFTER = "Use a note only where its reason fits the step that you judge now."

Words = Annotated[str, Field(max_length=MAX_WORDS)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class CriticNote(Value):
    """A corrected verdict.

    Attributes:
        goal: Prompt from the plan, which the verdict refers to.
        success: The right verdict.
        reason: Why it is right.
        better_prompt: A better prompt for a step that failed.
    """

    goal: Annotated[str, Field(min_length=1, max_length=MAX_WORDS)]
    success: bool
    reason: Words = ""
    better_prompt: Words = ""

    @property
    def text(self) -> str:
        """The note as the critic reads it, in one line."""
        verdict = "succeeded" if self.success else "failed"
        parts = [f'Goal: "{_line(self.goal)}" Right verdict: the step {verdict}.']
        parts += [f"Reason: {_line(self.reason)}"] if self.reason.strip() else []
        parts += [f'Better prompt: "{_line(self.better_prompt)}"'] if self.better_prompt.strip() else []
        return " ".join(parts)


class MeasuredNotes(Value):
    """Verdicts of a critic on images that the notes were not chosen on, without and with the notes.

    Attributes:
        critic: Model of the critic.
        images: Number of images.
        before: Share of right verdicts without the notes.
        after: The same with the notes.
        low: Lower bound of the 95 % confidence interval of the change.
        high: Upper bound.
    """

    critic: str = Field(max_length=2_000)
    images: int = Field(ge=1)
    before: Share
    after: Share
    low: float = Field(ge=-1.0, le=1.0)
    high: float = Field(ge=-1.0, le=1.0)


class CriticNotes(Value):
    """The notes of a critic. `measured` is `None` for notes that were written by hand."""

    notes: Several[CriticNote] = Field(min_length=1, max_length=MAX_NOTES)
    measured: MeasuredNotes | None = None

    @property
    def text(self) -> str:
        """The beginning of the message to the critic."""
        lines = [f"Note {number}. {note.text}" for number, note in enumerate(self.notes, 1)]
        return "\n".join([BEFORE, *lines, AFTER, "", ""])

    @property
    def digest(self) -> str:
        """16 hex digits over everything that the critic reads."""
        return hashlib.blake2b(self.text.encode(), digest_size=8).hexdigest()

    def save(self, folder: Path) -> Path:
        """Write the notes into a folder, and return the path of their file.

        Raises:
            SettingsError: The file cannot be written.
        """
        fields = {"format": FORMAT, "version": VERSION, **self.model_dump(exclude_none=True)}
        text = json.dumps(fields, indent=1, ensure_ascii=False)
        write_text(folder / NOTES, f"{text}\n", SettingsError, "The critic's notes")
        return folder / NOTES

    @classmethod
    def load(cls, path: str | Path) -> CriticNotes:
        """Read the notes in a file, or in a folder that `feedback notes` wrote.

        Raises:
            SettingsError: There are no notes, they are damaged, or they have a newer version.
        """
        path = Path(path).expanduser()
        if path.is_dir():
            path = path / NOTES
            if not path.exists():
                raise SettingsError(
                    f"The folder {str(path.parent)!r} does not contain critic's notes ({NOTES}).",
                    "Give the folder that `feedback notes` wrote. It has none if no notes were kept.",
                )
        found: Any = read_json(path, SettingsError, "The critic's notes", MAX_BYTES)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise SettingsError(
                f"{str(path)!r} does not contain critic's notes.", f"Its 'format' has to be {FORMAT!r}."
            )
        if found.get("version") != VERSION:
            raise SettingsError(
                f"The critic's notes {str(path)!r} have version {str(found.get('version'))[:20]}, but this "
                f"pack reads version {VERSION}.",
                "Update the pack, or choose the notes again.",
            )
        try:
            return cls.model_validate(
                {name: found[name] for name in found if name not in ("format", "version")}
            )
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            field = ".".join(str(part)[:60] for part in fault["loc"])
            raise SettingsError(
                f"{field} in the critic's notes {str(path)!r} is {str(fault['input'])[:40]!r}: "
                f"{fault['msg']}.",
                "Correct the value.",
            ) from error


def model_of(identity: str) -> str:
    """Return the model in an identity of a chat model, without the address of a server."""
    return identity.partition("@http")[0]


def _line(text: str) -> str:
    return " ".join(text.split())
