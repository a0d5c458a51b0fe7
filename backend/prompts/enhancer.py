"""Templates of the prompt enhancer: the pack's own, or those of the image model's maker.

They are not part of a prompt set, because they belong to the image model and not to the agent's checkpoint.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import ConfigDict, Field

from ..errors import SettingsError
from ..files.bounded_reader import read_text
from ..values import ValidTexts
from . import MAX_BYTES, MAX_TEMPLATE, TEMPLATES

SLOT = "{prompt}"
OWN = TEMPLATES / "enhancer"
"""Folder of the pack's own templates."""


class EnhancerPrompts(ValidTexts):
    """The two templates of an enhancer, for a step generated from text and for a step that edits an image.

    A template with the slot `{prompt}` is one message of the user. Another one is the system message, and the
    prompt follows as the user's message, which is how most makers publish theirs.
    """

    model_config = ConfigDict(frozen=True)

    text: str = Field(max_length=MAX_TEMPLATE)
    edit: str = Field(max_length=MAX_TEMPLATE)

    @property
    def digest(self) -> str:
        """16 hex digits over both templates."""
        return hashlib.blake2b(f"{self.text}\0{self.edit}".encode(), digest_size=8).hexdigest()


def enhancer_prompts(text: str = "", edit: str = "") -> EnhancerPrompts:
    """Return the templates with these texts. The pack's own replace an empty one.

    Raises:
        SettingsError: A text is too long.
    """
    for given in (text, edit):
        if len(given) > MAX_TEMPLATE:
            raise SettingsError(
                f"The enhancer's prompt has {len(given)} characters; the maximum is {MAX_TEMPLATE}.",
                "Shorten it.",
            )
    return EnhancerPrompts(
        text=text if text.strip() else read_template(OWN / "text.txt"),
        edit=edit if edit.strip() else read_template(OWN / "edit.txt"),
    )


def read_template(path: str | Path) -> str:
    """Read a template.

    Raises:
        SettingsError: The file is missing, too large or not text.
    """
    return read_text(Path(path), MAX_TEMPLATE * MAX_BYTES, SettingsError, "Enhancer's prompt")
