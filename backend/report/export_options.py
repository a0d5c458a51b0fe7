"""How a story is told by an export: to whom, under which title, and in which language the export's own words
are.

Decision: one value for all exports, so that each takes these options alike. The title is also drawn where
none was before (sheet, GIF, WebP), but only if a person gave one.
"""

from __future__ import annotations

from pydantic import Field

from ..types import Text, Trajectory, Value
from .audience import title_for
from .words import ENGLISH, Words, words_in


class ExportOptions(Value):
    """Options of exports that people look at. `words` raises SettingsError for an unknown language."""

    audience: bool = False
    """Texts and kept pictures alone, nothing of how the story was made."""
    title: Text = ""
    """Empty takes the beginning of the request, where there has to be one."""
    language: str = Field(default=ENGLISH, max_length=40)

    @property
    def words(self) -> Words:
        """The words of the language."""
        return words_in(self.language)

    def title_of(self, trajectory: Trajectory) -> str:
        """The title that is given, else the beginning of the request."""
        return self.words.heard(title_for(trajectory, self.title))


PLAIN = ExportOptions()
