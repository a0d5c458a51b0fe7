"""Breaks text into lines and draws them, in a font that has all of its letters.

Pillow's own scalable font is used if it has all letters of a text (it supports little beyond ASCII), so that
exports look the same everywhere. Otherwise the installed font with the most of them is used. Letters that no
font has are drawn as their base letter if possible (é as e), so that exports stay readable on a machine
without fonts.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from PIL import ImageDraw, ImageFont

from ...core.types import Trajectory
from ..report.export_options import ENGLISH, Words, words_in

ELLIPSIS = "…"
MAX_CHARACTERS = 2000
OWN = ""
INSTALLED = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "segoeui.ttf",
    "Arial Unicode.ttf",
    "arial.ttf",
    "NotoSansCJK-Regular.ttc",
    "NotoSansCJK-VF.otf.ttc",
    "NotoSansCJKsc-Regular.otf",
    "NotoSansCJKjp-Regular.otf",
    "NotoSansSC-Regular.otf",
    "NotoSansJP-Regular.otf",
    "SourceHanSans.ttc",
    "SourceHanSansSC-Regular.otf",
    "wqy-microhei.ttc",
    "wqy-zenhei.ttc",
    "DroidSansFallbackFull.ttf",
    "DroidSansFallback.ttf",
    "msyh.ttc",
    "simsun.ttc",
    "meiryo.ttc",
    "msgothic.ttc",
    "YuGothM.ttc",
    "malgun.ttf",
    "PingFang.ttc",
    "Hiragino Sans GB.ttc",
    "AppleSDGothicNeo.ttc",
    "Nirmala.ttf",
    "NotoSansArabic-Regular.ttf",
    "NotoSansDevanagari-Regular.ttf",
    "NotoSansHebrew-Regular.ttf",
    "NotoSansThai-Regular.ttf",
)
NOT_FIRST = frozenset("，。、；：？！）］｝》」』】〕〉”’…‥—～ーっゃゅょッャュョ々゛゜,.;:?!)]}»%％")
"""Punctuation that does not begin a line, where a text without blanks is broken."""
NOT_LAST = frozenset("（［｛《「『【〔〈“‘([{«")
"""Punctuation that does not end a line."""
CARRIED = 3
"""Maximum number of letters that are moved to the next line because of `NOT_FIRST` and `NOT_LAST`."""
KERNING = 0.3
"""Maximum kerning at a blank, as a share of the height of letters. Lines closer to the width are measured."""
NO_LETTER = "\uffff"
NOTED = 20
Color = tuple[int, int, int]
PAPER, INK, SOFT = (250, 248, 243), (35, 33, 29), (122, 117, 107)
"""Colors of all exports: background, text, and small text."""


@dataclass(frozen=True)
class Block:
    """Lines of text with the font in which they were measured. `pitch` is the line spacing in pixels."""

    lines: tuple[str, ...]
    font: Any
    pitch: int

    @property
    def height(self) -> int:
        """Height of all lines in pixels."""
        return len(self.lines) * self.pitch

    @property
    def width(self) -> int:
        """Width of the longest line in pixels."""
        return round(max(map(self.font.getlength, self.lines), default=0))

    def draw(self, canvas: ImageDraw.ImageDraw, left: int, top: int, color: Color | int) -> int:
        """Draw the lines from this corner, and return where the next line would begin."""
        for line in self.lines:
            canvas.text((left, top), line, font=self.font, fill=color)
            top += self.pitch
        return top


@lru_cache(maxsize=256)
def wrap(text: str, size: int, width: int, lines: int, characters: int = MAX_CHARACTERS) -> Block:
    """Break a text into lines.

    Lines break at blanks, and inside a word that is wider than a line (long addresses, scripts without
    blanks). Text that does not fit ends in an ellipsis.

    Args:
        text: Text to break.
        size: Height of the letters in pixels.
        width: Maximum width of a line in pixels.
        lines: Maximum number of lines.
        characters: Maximum number of characters of the text.
    """
    cut = text[:characters].strip()
    letters = frozenset(cut)
    name = _font_with(letters)
    font = _font(name, size)
    cut = cut.translate({ord(letter): _plain(letter, name) for letter in letters})
    lengths = {word: font.getlength(word) for word in {*cut.split(), " "}}
    broken: list[str] = []
    for paragraph in cut.splitlines():
        line, length, error = "", 0.0, 0.0
        for word in paragraph.split():
            candidate = f"{line} {word}" if line else word
            if line:
                length, error = length + lengths[" "] + lengths[word], error + KERNING * size
            else:
                length, error = lengths[word], 0.0
            if abs(length - width) <= error:
                length, error = font.getlength(candidate), 0.0
            if length <= width:
                line = candidate
                continue
            if line:
                broken.append(line)
            *whole, line = _break_word(word, font, width)
            broken += whole
            length, error = font.getlength(line), 0.0
        broken.append(line)
        if len(broken) > lines:
            break
    if len(broken) > lines or (broken and len(text) > characters):
        broken = broken[:lines]
        last = broken[-1]
        while last and font.getlength(last + ELLIPSIS) > width:
            last = last[:-1]
        broken[-1] = last.rstrip() + ELLIPSIS
    return Block(tuple(broken), font, round(size * 1.35))


def font_note(trajectory: Trajectory) -> str:
    """Return a warning that names the letters of a story that no font has, or an empty string."""
    steps = {step.number: step for step in trajectory.plan.steps}
    steps |= {result.step.number: result.step for result in trajectory.results}
    texts = [trajectory.request.text]
    for step in steps.values():
        texts += [step.name, step.instruction or "", step.prompt or "", step.auxiliary_text or ""]
    missing = letters_without_font(texts)
    if not missing:
        return ""
    shown = missing if len(missing) <= NOTED else f"{missing[:NOTED]}{ELLIPSIS}"
    return (
        f"No installed font has these letters: {shown} Install one that has (Noto Sans CJK has Chinese "
        "and Japanese)."
    )


def drawable(words: Words) -> Words:
    """Return the words that can be drawn here.

    English replaces a language whose letters no installed font has, since it would appear as empty boxes.
    """
    return words_in(ENGLISH) if letters_without_font(words.samples) else words


def letters_without_font(texts: Iterable[str]) -> str:
    """Return the letters of these texts, without duplicates, that no font has.

    They are drawn as empty boxes.
    """
    missing: dict[str, None] = {}
    for text in texts:
        for paragraph in text.splitlines():
            name = _font_with(frozenset(paragraph[:MAX_CHARACTERS].strip()))
            for letter in paragraph:
                if not _has(name, _plain(letter, name)) and unicodedata.category(letter)[0] not in "CM":
                    missing[letter] = None
    return "".join(missing)


@lru_cache(maxsize=64)
def _font(name: str, size: int) -> Any:
    return ImageFont.truetype(name, size) if name else ImageFont.load_default(size)


@lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    found = [OWN]
    for name in INSTALLED:
        try:
            _font(name, 16)
        except OSError:
            continue
        found.append(name)
    return tuple(found)


@lru_cache(maxsize=1024)
def _font_with(letters: frozenset[str]) -> str:
    # max() returns the first of equals, so Pillow's font wins if it has all letters.
    return max(_names(), key=lambda name: sum(_has(name, letter) for letter in letters))


@lru_cache(maxsize=65536)
def _has(name: str, letter: str) -> bool:
    font = _font(name, 16)
    return letter.isspace() or bytes(font.getmask(letter)) != bytes(font.getmask(NO_LETTER))


def _plain(letter: str, name: str) -> str:
    if _has(name, letter):
        return letter
    base = unicodedata.normalize("NFKD", letter)[0]
    return base if _has(name, base) else letter


def _break_word(word: str, font: Any, width: int) -> list[str]:
    parts = [""]
    for letter in word:
        line, begin = parts[-1], letter
        if not line or font.getlength(line + letter) <= width:
            parts[-1] += letter
            continue
        while (begin[0] in NOT_FIRST or line[-1] in NOT_LAST) and len(begin) <= CARRIED < len(line):
            line, begin = line[:-1], line[-1] + begin
        parts[-1:] = [line, begin]
    return parts
