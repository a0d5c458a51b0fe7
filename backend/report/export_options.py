"""Options of how an export presents a story: for which reader, with which title, in which language.

All exports share this one value, so they all understand the same options. Exports that did not show a title
before (sheet, GIF, WebP) show it only if the user gave one.
"""

from __future__ import annotations

from pydantic import Field

from ..types import Text, Trajectory, Value
from .audience import title_for
from .words import ENGLISH, Words, words_in


class ExportOptions(Value):
    """Options of exports for people. `words` raises `SettingsError` if the language is not supported."""

    audience: bool = False
    """Show only texts and kept images, without how the story was made."""
    title: Text = ""
    """Default (empty): the beginning of the request, for exports that need a title."""
    language: str = Field(default=ENGLISH, max_length=40)

    @property
    def words(self) -> Words:
        """The texts of the language."""
        return words_in(self.language)

    def title_of(self, trajectory: Trajectory) -> str:
        """Return the given title, else the beginning of the request."""
        return self.words.heard(title_for(trajectory, self.title))


PLAIN = ExportOptions()
