"""Text on a contact sheet: Pillow's own scalable font, and lines broken to a width."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from PIL import ImageFont

ELLIPSIS = "…"
MAX_CHARACTERS = 2000


@lru_cache(maxsize=64)
def font_of(size: int) -> Any:
    """The font that ships with Pillow, at `size` pixels (a fixed small one where Pillow was built without FreeType)."""
    return ImageFont.load_default(size)


def line_height(size: int) -> int:
    """Distance of two lines in pixels."""
    return round(size * 1.35)


def wrap(text: str, size: int, width: int, lines: int) -> list[str]:
    """Break a text into at most `lines` lines of at most `width` pixels; what does not fit ends in an ellipsis.

    Breaks at blanks, and inside a word that is wider than a line (long addresses, scripts without blanks).
    """
    font = font_of(size)
    broken: list[str] = []
    for paragraph in text[:MAX_CHARACTERS].strip().splitlines():
        line = ""
        for word in paragraph.split():
            candidate = f"{line} {word}" if line else word
            if font.getlength(candidate) <= width:
                line = candidate
                continue
            if line:
                broken.append(line)
            *whole, line = _break_word(word, font, width)
            broken += whole
        broken.append(line)
        if len(broken) > lines:
            break
    if len(broken) <= lines and len(text) <= MAX_CHARACTERS:
        return broken
    kept = broken[:lines]
    last = kept[-1]
    while last and font.getlength(last + ELLIPSIS) > width:
        last = last[:-1]
    return [*kept[:-1], last.rstrip() + ELLIPSIS]


def _break_word(word: str, font: Any, width: int) -> list[str]:
    parts = [""]
    for letter in word:
        if parts[-1] and font.getlength(parts[-1] + letter) > width:
            parts.append("")
        parts[-1] += letter
    return parts
