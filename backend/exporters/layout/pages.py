"""Lays out a story as the pages of a book, for the PDF export and the comic.

There is one page per step. All pages have one size, derived from the story's images, so that neither wide nor
tall images leave a page mostly empty. A long text continues on further pages. A step's name is cut after
three lines, and texts that would fill hundreds of pages are cut too. A small line on each page shows the
verdict on its image, so that no export looks better than the run was.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageDraw

from ...pictures import Picture
from ...report.audience import Panel, given_panels, panels_of
from ...report.export_options import PLAIN, ExportOptions
from ...report.outcomes import StoryStep, stop_sentence, story_steps, summarize
from ...report.words import Words
from ...types import StopReason, Trajectory
from .shapes import Box, Color, Shape, draw_shape
from .typesetting import Block, drawable, wrap

PAPER, INK, SOFT = (250, 248, 243), (35, 33, 29), (122, 117, 107)
LOWEST, HIGHEST = 0.62, 1.5
"""Minimum and maximum height of a page as a share of its width."""
WHOLE = 1_000_000
MAX_STORY_LENGTH = 200_000
"""Maximum characters of all steps together, about 200 pages.

Each step gets an equal part, and longer texts end in an ellipsis.
"""
NAME_LINES = 3
CONTENTS = 100
COVER = 0.25
"""Minimum free height of a title page, as a share of its height, for an image."""
JPEG: dict[str, Any] = {"quality": 92, "subsampling": 0}


@dataclass(frozen=True)
class TextBlock:
    """A block of text on a page.

    Attributes:
        block: The lines.
        left: Left edge in pixels.
        top: Top edge in pixels.
        size: Height of the letters in pixels.
        color: Color of the text.
        paper: Color of the background.
    """

    block: Block
    left: int
    top: int
    size: int
    color: Color
    paper: Color = PAPER

    @property
    def box(self) -> Box:
        """Left, top, right and bottom in pixels."""
        width = max((self.block.font.getlength(line) for line in self.block.lines), default=0)
        return self.left, self.top, self.left + round(width) + self.size // 4, self.top + self.block.height


@dataclass(frozen=True)
class Page:
    """One page, in pixels. Shapes are drawn over the images, and texts over the shapes.

    `name` is its title in a table of contents, and empty for a continued page.
    """

    size: tuple[int, int]
    name: str
    pictures: tuple[tuple[Picture, Box], ...]
    texts: tuple[TextBlock, ...]
    shapes: tuple[Shape, ...] = ()


@dataclass(frozen=True)
class _Leaf:
    """Content of a step's page. `contents` is its title in the table of contents."""

    picture: Picture | None
    name: str
    text: str
    mark: str
    contents: str


def story_pages(trajectory: Trajectory, width: int, options: ExportOptions = PLAIN) -> list[Page]:
    """Lay out a title page and the pages of every step.

    Args:
        trajectory: A run, finished or not.
        width: Width of a page in pixels.
        options: Title, language and audience. For an audience, the pages show only the story.

    Raises:
        SettingsError: The language is unknown.
    """
    words = drawable(options.words)
    if options.audience:
        leaves = list(map(_panel_leaf, panels_of(trajectory)))
    else:
        leaves = list(map(_panel_leaf, given_panels(trajectory)))
        leaves += [_leaf(shown, words) for shown in story_steps(trajectory)]
    book = _Book(leaves, width)
    sums = "" if options.audience else words.heard(summarize(trajectory).sentence)
    pages = list(book.title(trajectory, options.title_of(trajectory), sums))
    for leaf in leaves:
        pages += book.leaf(leaf)
    return book.numbered(pages)


def page_image(page: Page) -> Image.Image:
    """Render a page as an RGB image."""
    image = Image.new("RGB", page.size, PAPER)
    canvas = ImageDraw.Draw(image)
    for picture, (left, top, right, bottom) in page.pictures:
        image.paste(picture.image.resize((right - left, bottom - top), Image.Resampling.LANCZOS), (left, top))
    for shape in page.shapes:
        draw_shape(image, shape)
    for text in page.texts:
        write_text(canvas, text, text.left, text.top, text.color)
    return image


def write_text(canvas: ImageDraw.ImageDraw, text: TextBlock, left: int, top: int, color: Color | int) -> None:
    """Draw the lines of a text, starting at a corner."""
    for line in text.block.lines:
        canvas.text((left, top), line, font=text.block.font, fill=color)
        top += text.block.pitch


def smaller_file(image: Image.Image) -> tuple[str, bytes]:
    """Return extension and content of an image file: ".png", or ".jpg" of high quality if smaller."""
    files = []
    for ending, kind, options in ((".png", "PNG", {"compress_level": 6}), (".jpg", "JPEG", JPEG)):
        buffer = io.BytesIO()
        image.save(buffer, kind, **options)
        files.append((ending, buffer.getvalue()))
    return min(files, key=lambda file: len(file[1]))


class _Book:
    """The dimensions shared by all pages."""

    def __init__(self, leaves: list[_Leaf], width: int) -> None:
        self.width = width
        self.longest = max(MAX_STORY_LENGTH // 100, MAX_STORY_LENGTH // max(1, len(leaves)))
        self.margin = round(width * 0.06)
        self.inner = width - 2 * self.margin
        self.heading, self.plain, self.small = (round(width * share) for share in (0.032, 0.024, 0.016))
        pictures = [leaf.picture for leaf in leaves if leaf.picture]
        tallest = max((self._shown(picture)[1] for picture in pictures), default=round(self.inner * 0.4))
        words = max((self._caption(leaf)[1] for leaf in leaves), default=0)
        content = 2 * self.margin + tallest + self.plain + words + 3 * self.small
        self.height = round(min(max(content, width * LOWEST), width * HIGHEST))
        self.bottom = self.height - self.margin - 2 * self.small

    def title(self, trajectory: Trajectory, title: str, sentence: str) -> Iterator[Page]:
        """Yield the title page, and further pages for a long request.

        `sentence` is the summary of the run, empty for an audience.
        """
        name = TextBlock(
            wrap(title, round(self.heading * 1.5), self.inner, WHOLE, WHOLE),
            self.margin, self.margin + self.plain, round(self.heading * 1.5), INK,
        )  # fmt: skip
        top = name.top + name.block.height + self.plain
        request = trajectory.request.text.strip()
        rest = self._lines("" if not sentence or request.rstrip(".") == title else request, self.plain)
        sums = TextBlock(
            wrap(sentence, self.small, self.inner, 2),
            self.margin, self.bottom - 2 * self.small, self.small, SOFT,
        )  # fmt: skip
        first, rest = self._take(rest, top, sums.top - self.small, self.plain, SOFT)
        cover = self._cover(trajectory, first[-1] if first else name, sums.top - self.plain)
        yield Page((self.width, self.height), title, cover, (name, *first, sums))
        yield from self._further(rest, SOFT)

    def leaf(self, leaf: _Leaf) -> Iterator[Page]:
        """Yield the page of a step, and further pages for a long text."""
        pictures: tuple[tuple[Picture, Box], ...] = ()
        top = self.margin
        room = self.bottom - top - self._caption_room(leaf)
        if leaf.picture:
            width, height = self._shown(leaf.picture, room)
            left = (self.width - width) // 2
            pictures = ((leaf.picture, (left, top, left + width, top + height)),)
            top += height + self.plain
        else:
            top += round(self.height * 0.12)
        texts: list[TextBlock] = []
        if leaf.name:
            heading = wrap(leaf.name, self.heading, self.inner, NAME_LINES)
            texts.append(TextBlock(heading, self.margin, top, self.heading, INK))
            top += heading.height + self.plain // 3
        first, rest = self._take(self._lines(leaf.text, self.plain), top, self.bottom, self.plain, INK)
        texts += first
        if leaf.mark:
            foot = wrap(leaf.mark, self.small, self.inner * 3 // 4, 1)
            texts.append(TextBlock(foot, self.margin, self.bottom + self.small, self.small, SOFT))
        yield Page((self.width, self.height), leaf.contents, pictures, tuple(texts))
        yield from self._further(rest, INK)

    def numbered(self, pages: list[Page]) -> list[Page]:
        """Add page numbers in the corner, except on the first page."""
        done = pages[:1]
        for number, page in enumerate(pages[1:], start=2):
            block = wrap(str(number), self.small, self.inner, 1)
            left = self.width - self.margin - round(block.font.getlength(str(number)))
            text = TextBlock(block, left, self.bottom + self.small, self.small, SOFT)
            done.append(Page(page.size, page.name, page.pictures, (*page.texts, text)))
        return done

    def _cover(
        self, trajectory: Trajectory, above: TextBlock, bottom: int
    ) -> tuple[tuple[Picture, Box], ...]:
        """Return the story's last image in the space below the title."""
        pictures = [result.image for result in trajectory.results if result.image]
        top = above.box[3] + self.plain
        if not pictures or bottom - top < self.height * COVER:
            return ()
        width, height = self._shown(pictures[-1], bottom - top)
        return ((pictures[-1], (self.margin, top, self.margin + width, top + height)),)

    def _further(self, block: Block, color: Color) -> Iterator[Page]:
        while block.lines:
            texts, block = self._take(block, self.margin, self.bottom, self.plain, color)
            yield Page((self.width, self.height), "", (), texts)

    def _take(
        self, block: Block, top: int, bottom: int, size: int, color: Color
    ) -> tuple[tuple[TextBlock, ...], Block]:
        """Return the lines that fit above `bottom`, and the rest."""
        fitting = max(0, (bottom - top) // block.pitch)
        lines, rest = block.lines[:fitting], block.lines[fitting:]
        taken = (
            (TextBlock(Block(lines, block.font, block.pitch), self.margin, top, size, color),)
            if lines
            else ()
        )
        return taken, Block(rest, block.font, block.pitch)

    def _lines(self, text: str, size: int) -> Block:
        return wrap(text, size, self.inner, WHOLE, self.longest)

    def _caption(self, leaf: _Leaf) -> tuple[int, int]:
        """Return the height of the heading, and of heading and text together."""
        name = leaf.name
        heading = wrap(name, self.heading, self.inner, NAME_LINES).height + self.plain // 3 if name else 0
        return heading, heading + self._lines(leaf.text, self.plain).height

    def _caption_room(self, leaf: _Leaf) -> int:
        """Return the space reserved below an image: its caption, but at most a third of the page."""
        heading, whole = self._caption(leaf)
        return min(self.plain + whole, max(self.plain + heading, self.height // 3))

    def _shown(self, picture: Picture, room: int | None = None) -> tuple[int, int]:
        width, height = picture.size
        scale = min(self.inner / width, (room or self.inner * 1.2) / height)
        return max(1, round(width * scale)), max(1, round(height * scale))


def _panel_leaf(panel: Panel) -> _Leaf:
    return _Leaf(panel.picture, "", panel.text, "", "")


def _leaf(shown: StoryStep, words: Words) -> _Leaf:
    name = shown.step.name.strip()
    return _Leaf(
        picture=shown.result.image if shown.result else None,
        name=name,
        text=_story(shown),
        mark=mark_of(shown, words),
        contents=name[:CONTENTS] or words.say("Step {number}", number=shown.step.number),
    )


def _story(shown: StoryStep) -> str:
    step = shown.step
    text = step.auxiliary_text or step.instruction or ""
    skipped = shown.result is not None and shown.result.stop_reason is StopReason.skipped
    if step.prompt and not skipped and not (shown.result and shown.result.image):
        return "\n".join(part for part in (text, step.prompt) if part)
    return text


def mark_of(shown: StoryStep, words: Words) -> str:
    """Return the verdict on an image, or the outcome of its step, as a small line below it."""
    if shown.result is None:
        return words.say("Not reached")
    quiet = shown.result.stop_reason in (StopReason.text_only, StopReason.skipped)
    return "" if quiet else words.heard(stop_sentence(shown.result))
