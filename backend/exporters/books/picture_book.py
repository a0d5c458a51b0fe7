"""A story as a picture book: a PDF whose pages of text face pages of images.

The text of an image is on the left page and the image on the right one, and the other way round in scripts
that are read from right to left. A two-page view shows both next to each other. The text of all
pages has one size, the largest at which every text fits on its page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...report.export_options import PLAIN, ExportOptions
from ...report.outcomes import summarize
from ...shown_text import is_right_to_left
from ...types import Trajectory
from ..layout.files import write_whole
from ..layout.pages import (
    HIGHEST,
    INK,
    LOWEST,
    MAX_STORY_LENGTH,
    SOFT,
    WHOLE,
    Page,
    TextBlock,
)
from ..layout.shapes import Color
from ..layout.typesetting import Block, drawable, wrap
from ..pdf import WIDTH, pages_pdf
from .parts import BookPart, all_text, book_parts

FILE_NAME = "book.pdf"
SIZES = (0.042, 0.037, 0.033, 0.029, 0.026)
"""Letter heights of the text as shares of the page's width, largest first."""
TITLE, SMALL = 0.058, 0.015
TITLE_LINES = 5
MEASURE = 0.74
"""Maximum width of a line of text as a share of the page's width."""
SPACING = 1.55
COVER = 0.25


def export(trajectory: Trajectory, folder: Path, options: ExportOptions = PLAIN) -> Path:
    """Write `folder`/book.pdf and return its path.

    Raises:
        SettingsError: The language is unknown.
        JournalError: The folder cannot be written.
    """
    pages, backwards = book_pages(trajectory, WIDTH, options)
    data = pages_pdf(pages, options.title_of(trajectory), "R2L" if backwards else "L2R")
    return write_whole(Path(folder) / FILE_NAME, data)


def book_pages(trajectory: Trajectory, width: int, options: ExportOptions = PLAIN) -> tuple[list[Page], bool]:
    """Lay out a cover and the pages of a story.

    Args:
        trajectory: A run, finished or not.
        width: Width of a page in pixels.
        options: Title, language and audience.

    Returns:
        The pages, and whether the book is read from right to left.

    Raises:
        SettingsError: The language is unknown.
    """
    words = drawable(options.words)
    title = options.title_of(trajectory)
    parts = book_parts(trajectory, options, words)
    book = _Book(parts, width)
    sums = "" if options.audience else words.heard(summarize(trajectory).sentence)
    pages = [book.cover(title, sums)]
    for part, block in zip(parts, book.blocks, strict=True):
        texts = list(book.text_pages(part, block))
        # Page 0 is the cover, so pages with an odd index are the first of a spread.
        if texts and part.picture and (len(pages) + len(texts)) % 2:
            # A single image without a text is on the same side as the other images.
            pages.insert(len(pages) - bool(pages[-1].pictures and len(pages) > 1), book.blank())
        pages += texts
        if part.picture:
            pages.append(book.image_page(part, named=not texts))
    return book.numbered(pages), is_right_to_left(all_text(title, parts))


@dataclass(frozen=True)
class _Area:
    """The area of a page that text may use, in pixels."""

    left: int
    top: int
    right: int
    bottom: int


class _Book:
    """The dimensions shared by all pages."""

    def __init__(self, parts: Sequence[BookPart], width: int) -> None:
        self.width, self.margin = width, round(width * 0.06)
        self.small = round(width * SMALL)
        self.inner = width - 2 * self.margin
        self.last = next((part.picture for part in reversed(parts) if part.picture), None)
        ratios = [part.picture.size[1] / part.picture.size[0] for part in parts if part.picture]
        self.foot = self.margin + 2 * self.small
        content = self.margin + self.inner * max(ratios, default=LOWEST) + self.foot
        self.height = round(min(max(content, width * LOWEST), width * HIGHEST))
        side = round(width * (1 - MEASURE) / 2)
        self.area = _Area(side, self.margin, width - side, self.height - self.foot)
        longest = max(MAX_STORY_LENGTH // 100, MAX_STORY_LENGTH // max(1, len(parts)))
        room = self.area.bottom - self.area.top
        blocks: list[Block] = []
        for share in SIZES:
            self.size = round(width * share)
            blocks = [self._lines(part.text, longest) for part in parts]
            if all(block.height <= room for block in blocks):
                break
        self.blocks = blocks

    def cover(self, title: str, sentence: str) -> Page:
        """Return the cover: the title above the story's last image."""
        size = round(self.width * TITLE)
        block = wrap(title, size, self.inner, TITLE_LINES)
        top = self.margin + size // 2
        texts = list(_set(block, _Area(self.margin, top, self.margin + self.inner, top), size, INK, 0.5))
        above = top + block.height + size // 2
        if sentence:
            foot = wrap(sentence, self.small, self.inner, 2)
            edge = self.height - self.margin
            place = _Area(self.margin, edge - foot.height, self.margin + self.inner, edge)
            texts += _set(foot, place, self.small, SOFT, 0.5)
        pictures = ()
        room = self.height - self.foot - above
        if self.last and room >= self.height * COVER:
            pictures = ((self.last, self._fitted(self.last.size, above, above + room)),)
        return Page((self.width, self.height), title, pictures, tuple(texts))

    def text_pages(self, part: BookPart, block: Block) -> Iterator[Page]:
        """Yield the pages of a text. If it fits on one page, it is in the middle of it."""
        backwards, name = is_right_to_left(part.text), part.name
        room = max(1, (self.area.bottom - self.area.top) // block.pitch)
        for start in range(0, len(block.lines), room):
            lines = block.lines[start : start + room]
            used = replace(block, lines=lines)
            widest = max(round(block.font.getlength(line)) for line in lines)
            left = (self.width - widest) // 2
            free = self.area.bottom - self.area.top - used.height if len(block.lines) <= room else 0
            top = self.area.top + round(free * 0.45)
            place = _Area(left, top, left + widest, self.area.bottom)
            texts = tuple(_set(used, place, self.size, INK, float(backwards)))
            yield Page((self.width, self.height), name, (), texts)
            name = ""

    def image_page(self, part: BookPart, named: bool) -> Page:
        """Return the page of an image, as large as possible."""
        assert part.picture is not None
        bottom = self.height - self.foot
        texts: tuple[TextBlock, ...] = ()
        if part.mark:
            top = bottom + self.small
            foot = wrap(part.mark, self.small, self.inner * 3 // 4, 1)
            area = _Area(self.margin, top, self.margin + self.inner, top)
            texts = tuple(_set(foot, area, self.small, SOFT, float(is_right_to_left(part.mark))))
        box = self._fitted(part.picture.size, self.margin, bottom)
        return Page((self.width, self.height), part.name if named else "", ((part.picture, box),), texts)

    def blank(self) -> Page:
        """Return an empty page."""
        return Page((self.width, self.height), "", (), ())

    def numbered(self, pages: list[Page]) -> list[Page]:
        """Add page numbers in the middle of the foot, except on the cover and empty pages."""
        done = pages[:1]
        for number, page in enumerate(pages[1:], start=2):
            top = self.height - self.margin
            block = wrap(str(number), self.small, self.inner, 1)
            text = _set(block, _Area(0, top, self.width, top), self.small, SOFT, 0.5)
            is_blank = not page.pictures and not page.texts
            done.append(page if is_blank else replace(page, texts=(*page.texts, *text)))
        return done

    def _lines(self, text: str, longest: int) -> Block:
        block = wrap(text, self.size, self.area.right - self.area.left, WHOLE, longest)
        return replace(block, pitch=round(self.size * SPACING))

    def _fitted(self, size: tuple[int, int], top: int, bottom: int) -> tuple[int, int, int, int]:
        """Return the box of an image in the middle of the page, between two heights."""
        scale = min(self.inner / size[0], (bottom - top) / size[1])
        width, height = (max(1, round(side * scale)) for side in size)
        left, top = (self.width - width) // 2, top + (bottom - top - height) // 2
        return left, top, left + width, top + height


def _set(block: Block, area: _Area, size: int, color: Color, place: float) -> Iterator[TextBlock]:
    """Yield the lines of a block, each on its own.

    `place` is the side of the area at which the lines are: 0 left, 0.5 in the middle, 1 right.
    """
    for number, line in enumerate(block.lines):
        if line:
            free = area.right - area.left - block.font.getlength(line)
            left, top = area.left + round(max(0.0, free) * place), area.top + number * block.pitch
            yield TextBlock(replace(block, lines=(line,)), left, top, size, color)
