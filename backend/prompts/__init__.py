"""Prompt sets: the three templates that an agent's checkpoint was trained with, as data.

Decision: a prompt set belongs to a checkpoint, not to the code. It is a folder of three text files; a
checkpoint that carries its own (sub-folder `prompt_set`) wins over the pack's. Slots are filled in one pass,
so a user's text that happens to hold `{rewritten_prompt}` stays text. The digest goes into every trajectory.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import SettingsError
from ..files.atomic import write_text
from ..files.bounded_reader import read_text

SLOT = re.compile(r"\{(text_input|original_instruction|rewritten_prompt)\}")
FOLDER_NAME = "prompt_set"
MAX_TEMPLATE = 200_000
MOST_BYTES = 4
"""Of one character in UTF-8."""
NAMES = ("default", "verdict-first", "short")
"""Prompt sets that ship with the pack; the last two differ in the form of the critic's answer."""
FORM_BEGINS = "Answer in exactly this form"
"""From here on a critic's template says how to answer."""


class PromptSet(BaseModel):
    """Templates: planner from text, planner from text and images (slot `{text_input}`), critic (slots
    `{original_instruction}`, `{rewritten_prompt}`). Image marks are `<image>`; without any, images come
    first."""

    model_config = ConfigDict(frozen=True)

    planner_text: str = Field(max_length=MAX_TEMPLATE)
    planner_images: str = Field(max_length=MAX_TEMPLATE)
    critic: str = Field(max_length=MAX_TEMPLATE)

    @property
    def digest(self) -> str:
        """16 hex digits over the three templates."""
        parts = "\0".join((self.planner_text, self.planner_images, self.critic))
        return hashlib.blake2b(parts.encode(), digest_size=8).hexdigest()

    @property
    def verdict_first(self) -> bool:
        """Whether the critic is asked for its answer before its reasoning, as its template shows the form."""
        answer, reasoning = self.critic.find("<answer>"), self.critic.find("<think>")
        return 0 <= answer < reasoning

    @classmethod
    def load(cls, folder: str | Path) -> PromptSet:
        """Read a folder with planner_text.txt, planner_images.txt and critic.txt; raises SettingsError."""
        texts: dict[str, str] = {}
        for name in cls.model_fields:
            path = Path(folder) / f"{name}.txt"
            texts[name] = _template(path)
        try:
            return cls(**texts)
        except ValidationError as error:
            name = error.errors()[0]["loc"][0]
            raise SettingsError(
                f"Prompt set {str(folder)!r}: {name}.txt has more than {MAX_TEMPLATE} characters."
            ) from error

    def save(self, folder: str | Path) -> None:
        """Write the three files into `folder`, making it; raises SettingsError, also for a folder that is a
        link."""
        if Path(folder).is_symlink():
            raise SettingsError(
                f"{str(folder)!r} is a link, through which no prompt set is written.", "Remove it."
            )
        for name in type(self).model_fields:
            write_text(Path(folder) / f"{name}.txt", getattr(self, name), SettingsError, "Prompt set's file")


def default_prompt_set() -> PromptSet:
    """The pack's own wording, for models that bring none."""
    return PromptSet.load(Path(__file__).parent)


def named_prompt_set(name: str) -> PromptSet:
    """One of NAMES: the pack's own, or the same with a critic that is asked for fewer tokens. Raises
    SettingsError.

    For critics that are trained with it: one that was trained with another wording is not asked in this one.
    """
    if name not in NAMES:
        raise SettingsError(f"There is no prompt set {name!r}.", f"Known: {', '.join(NAMES)}.")
    own = default_prompt_set()
    if name == NAMES[0]:
        return own
    form = _template(Path(__file__).parent / f"critic_{name.replace('-', '_')}.txt")
    return own.model_copy(update={"critic": own.critic.partition(FORM_BEGINS)[0] + form})


def _template(path: Path) -> str:
    # Git and editors on Windows write CRLF, which would be another prompt with another digest.
    text = read_text(path, MAX_TEMPLATE * MOST_BYTES, SettingsError, "Prompt set's file")
    return text.replace("\r\n", "\n")


def prompt_set_of(checkpoint: str | Path) -> PromptSet | None:
    """The prompt set that a checkpoint folder carries, None if it carries none; raises SettingsError if
    broken."""
    folder = Path(checkpoint) / FOLDER_NAME
    return PromptSet.load(folder) if folder.is_dir() else None


def fill(template: str, **values: str) -> str:
    """Fill the known slots in one pass; values are never scanned for slots. Raises KeyError for a missing
    value."""
    return SLOT.sub(lambda slot: values[slot.group(1)], template)
