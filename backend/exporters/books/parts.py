"""The parts of a book: an image and the text that belongs to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...pictures import Picture
from ...report.audience import panels_of
from ...report.export_options import ExportOptions
from ...report.outcomes import story_steps
from ...report.words import Words
from ...types import Trajectory
from ..layout.pages import mark_of

PARAGRAPHS = "\n\n"


@dataclass(frozen=True)
class BookPart:
    """An image with its text.

    Attributes:
        name: Name of the step; empty in exports for an audience.
        text: Text, empty if there is none.
        picture: Image; `None` for a text at the end of the story.
        mark: Verdict on the image; empty in exports for an audience.
    """

    name: str
    text: str
    picture: Picture | None
    mark: str


def book_parts(trajectory: Trajectory, options: ExportOptions, words: Words) -> list[BookPart]:
    """Return the parts of a story. The texts of text-only steps go before that of the next image."""
    steps = () if options.audience else story_steps(trajectory)
    marks = {shown.step.number: mark_of(shown, words) for shown in steps}
    parts: list[BookPart] = []
    names: list[str] = []
    texts: list[str] = []
    for panel in panels_of(trajectory):
        names += [panel.name] if panel.name and not options.audience else []
        texts += [panel.text] if panel.text else []
        if panel.picture is not None:
            mark = marks.get(panel.number, "") if panel.name else ""
            parts.append(BookPart(" \u00b7 ".join(names), PARAGRAPHS.join(texts), panel.picture, mark))
            names, texts = [], []
    if texts:
        parts.append(BookPart(" \u00b7 ".join(names), PARAGRAPHS.join(texts), None, ""))
    return parts


def all_text(title: str, parts: Sequence[BookPart]) -> str:
    """Return all texts of a book and its title as one text."""
    return PARAGRAPHS.join([*(part.text for part in parts if part.text), title])
