"""A run as a PDF for printing and mailing, and the layout of its pages, which other exports use too.

There is one page per step. All pages have one size, derived from the story's images, so that neither wide nor
tall images leave a page mostly empty. A long text continues on further pages. A step's name is cut after
three lines, and texts that would fill hundreds of pages are cut too. A small line on each page shows the
verdict on its image, so that no export looks better than the run was.

Pillow draws the visible text at the resolution of the page, as on the contact sheet. Text therefore looks the
same in every export, and every script that an installed font supports is shaped correctly. The same text lies
over it invisibly and can be selected, searched and copied, as in a scanned book. Its font is hidden: it has
an empty glyph for each letter of the document, so text in every script can be selected without an installed
font.

Frames and balloons are polygons whose round corners are short lines. The same list of points serves image and
PDF, so the PNG shows what is printed.
"""

from __future__ import annotations

import io
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from PIL import Image, ImageDraw

from ...core.pictures import Picture
from ...core.types import StopReason, Trajectory
from ...story.outcomes import StoryStep, stop_sentence, story_steps, summarize
from ..report.export_options import PLAIN, ExportOptions, Panel, Words, given_panels, panels_of
from .export_files import write_whole
from .typesetting import Block, drawable, wrap

if TYPE_CHECKING:
    from fpdf import FPDF
    from fpdf.prefs import ViewerPreferences


Color = tuple[int, int, int]
Box = tuple[int, int, int, int]
Point = tuple[float, float]
WHITE: Color = (255, 255, 255)
SMOOTH = 4
"""Supersampling factor at which a shape is drawn before it is scaled down."""
CORNER_LINES = 8


@dataclass(frozen=True)
class Shape:
    """A filled outline in pixels.

    Attributes:
        box: Left, top, right and bottom.
        fill: Fill color. None is transparent.
        color: Color of the outline.
        line: Width of the outline.
        round: Radius of the corners.
        tail: Tip of a speech balloon's tail.
    """

    box: Box
    fill: Color | None
    color: Color
    line: int
    round: int = 0
    tail: Point | None = None

    def points(self) -> list[Point]:
        """Return the corners of the outline, clockwise from the upper left."""
        left, top, right, bottom = self.box
        radius = min(self.round, (right - left) // 2, (bottom - top) // 2)
        corners = (
            (left + radius, top + radius, 180),
            (right - radius, top + radius, 270),
            (right - radius, bottom - radius, 0),
            (left + radius, bottom - radius, 90),
        )
        points: list[Point] = []
        for number, (x, y, start) in enumerate(corners):
            if number == 3 and self.tail:
                middle, half = (left + right) / 2, max(4, (right - left) / 16)
                points += [(middle + half, bottom), self.tail, (middle - half, bottom)]
            if not radius:
                points.append((x, y))
                continue
            for step in range(CORNER_LINES + 1):
                angle = math.radians(start + 90 * step / CORNER_LINES)
                points.append((x + radius * math.cos(angle), y + radius * math.sin(angle)))
        return points


def draw_shape(image: Image.Image, shape: Shape) -> None:
    """Draw the shape with smooth edges."""
    points = shape.points()
    left, top = (int(min(values)) - shape.line for values in zip(*points, strict=True))
    right, bottom = (int(max(values)) + shape.line + 1 for values in zip(*points, strict=True))
    size = max(1, right - left) * SMOOTH, max(1, bottom - top) * SMOOTH
    placed = [((x - left) * SMOOTH, (y - top) * SMOOTH) for x, y in points]
    for color, drawn in ((shape.fill, "fill"), (shape.color, "line")):
        if color is None:
            continue
        mask = Image.new("L", size, 0)
        canvas = ImageDraw.Draw(mask)
        if drawn == "fill":
            canvas.polygon(placed, fill=255)
        else:
            canvas.line([*placed, placed[0], placed[1]], fill=255, width=shape.line * SMOOTH, joint="curve")
        small = mask.resize((size[0] // SMOOTH, size[1] // SMOOTH), Image.Resampling.BOX)
        image.paste(Image.new("RGB", small.size, color), (left, top), small)


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


UNITS, ADVANCE, ASCENT, DESCENT = 1000, 500, 1000, -250
"""Units per em, width of each letter, and the selected height above and below the baseline."""
MAX_LETTERS = 65_000
"""Maximum number of letters. A TrueType font can have 65,535 glyphs."""
FONT_DATE = 3_786_912_000
"""Seconds from 1904 to 2024. Fixed, so that the same letters give the same file."""


def write_hidden_font(letters: Iterable[str], path: Path) -> None:
    """Write a TrueType font with an empty glyph for each of the letters."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.ttLib.tables._g_l_y_f import Glyph

    # fpdf2 rejects an empty font, which pages without text would have.
    codes = sorted(map(ord, {" ", *letters}))[:MAX_LETTERS]
    names = {code: f"u{code:X}" for code in codes}
    order = [".notdef", *names.values()]
    font = FontBuilder(UNITS, isTTF=True)
    font.setupHead(unitsPerEm=UNITS, created=FONT_DATE, modified=FONT_DATE)
    font.font.recalcTimestamp = False
    font.setupGlyphOrder(order)
    font.setupCharacterMap(names)
    font.setupGlyf({name: Glyph() for name in order})
    font.setupHorizontalMetrics({name: (ADVANCE, 0) for name in order})
    font.setupHorizontalHeader(ascent=ASCENT, descent=DESCENT)
    font.setupNameTable({"familyName": "Hidden", "styleName": "Regular", "psName": "Hidden"})
    font.setupOS2()
    font.setupPost()
    font.save(path)


FILE_NAME = "story.pdf"
WIDTH = 2480
"""Width of a page in pixels: 300 per inch on A4."""
POINT = 72 / 300
"""Points (1/72 inch) per pixel."""
FONT = "hidden"
Spreads = Literal["L2R", "R2L"]
"""Reading direction of a book, as in the PDF specification."""
DATE = datetime(2024, 1, 1, tzinfo=timezone.utc)
"""Creation date. Fixed, so that the same run gives the same file."""


def export(trajectory: Trajectory, folder: Path, options: ExportOptions = PLAIN) -> Path:
    """Write `folder`/story.pdf and return its path.

    Raises:
        SettingsError: The language is unknown.
        JournalError: The folder cannot be written.
    """
    return write_whole(Path(folder) / FILE_NAME, story_pdf(trajectory, options))


def story_pdf(trajectory: Trajectory, options: ExportOptions = PLAIN) -> bytes:
    """Return the run as the content of a PDF file."""
    pages = story_pages(trajectory, WIDTH, options)
    return pages_pdf(pages, options.title_of(trajectory))


def pages_pdf(pages: Sequence[Page], title: str, spreads: Spreads | None = None) -> bytes:
    """Return pages, which all have one size, as the content of a PDF file.

    Args:
        pages: The pages.
        title: Title of the document.
        spreads: Show two pages next to each other, after the first one, in this reading direction.
    """
    from fpdf import FPDF
    from fpdf.enums import PageLayout
    from fpdf.prefs import ViewerPreferences

    width, height = pages[0].size
    file = FPDF(unit="pt", format=(width * POINT, height * POINT))
    file.set_auto_page_break(False)
    file.set_title(title)
    file.set_creator("InterleaveThinker")
    file.set_creation_date(DATE)
    file.viewer_preferences = ViewerPreferences(display_doc_title=True)
    if spreads:
        file.page_layout = PageLayout.TWO_PAGE_RIGHT
        file.viewer_preferences = _as_book(spreads)
    images: dict[str, Image.Image | io.BytesIO] = {}
    # fpdf2 reads the font until the file is written, and Windows does not delete files that are open.
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        font = Path(folder) / f"{FONT}.ttf"
        write_hidden_font(
            (letter for page in pages for text in page.texts for letter in _letters(text)), font
        )
        file.add_font(FONT, fname=font)
        for page in pages:
            _add_page(file, page, images)
        return bytes(file.output())


def _as_book(spreads: Spreads) -> ViewerPreferences:
    """Return the preferences of a book. fpdf2 2.8 writes a direction that is not in the specification."""
    from fpdf.prefs import ViewerPreferences

    class BookPreferences(ViewerPreferences):
        """Writes the direction as it is."""

        direction: Any = None

    preferences = BookPreferences(display_doc_title=True)
    preferences.direction = f"/{spreads}"
    return preferences


def _add_page(file: FPDF, page: Page, images: dict[str, Image.Image | io.BytesIO]) -> None:
    file.add_page()
    if page.name:
        file.start_section(page.name)
    file.set_fill_color(*PAPER)
    file.rect(0, 0, file.w, file.h, style="F")
    for picture, box in page.pictures:
        if picture.digest not in images:
            images[picture.digest] = _smaller(picture.image)
        _place(file, images[picture.digest], box)
    for shape in page.shapes:
        _outline(file, shape)
    for text in page.texts:
        if text.block.lines:
            _place(file, _visible(text), text.box)
            _select(file, text)


def _place(file: FPDF, image: Image.Image | io.BytesIO, box: tuple[int, int, int, int]) -> None:
    left, top, right, bottom = (side * POINT for side in box)
    file.image(image, left, top, right - left, bottom - top)


def _smaller(image: Image.Image) -> Image.Image | io.BytesIO:
    """Return the image for lossless storage, or as high-quality JPEG if that is smaller."""
    jpeg = io.BytesIO()
    image.save(jpeg, "JPEG", **JPEG)
    return image if len(zlib.compress(image.tobytes(), 6)) <= len(jpeg.getvalue()) else jpeg


def _outline(file: FPDF, shape: Shape) -> None:
    first, *others = shape.points()
    with file.new_path(first[0] * POINT, first[1] * POINT) as path:
        path.style.stroke_color = "#" + bytes(shape.color).hex()
        path.style.fill_color = None if shape.fill is None else "#" + bytes(shape.fill).hex()
        path.style.stroke_width = shape.line * POINT
        path.style.stroke_join_style = "round"
        for x, y in others:
            path.line_to(x * POINT, y * POINT)
        path.close()


def _visible(text: TextBlock) -> Image.Image:
    """Return the text as an image whose color 0 is its background and whose color 255 is its ink."""
    left, top, right, bottom = text.box
    shades = Image.new("L", (right - left, bottom - top), 0)
    write_text(ImageDraw.Draw(shades), text, 0, 0, 255)
    image = Image.frombytes("P", shades.size, shades.tobytes())
    image.putpalette(
        bytes(
            round(low + (high - low) * share / 255)
            for share in range(256)
            for low, high in zip(text.paper, text.color, strict=True)
        )
    )
    return image


def _letters(text: TextBlock) -> str:
    return "".join(text.block.lines)


def _select(file: FPDF, text: TextBlock) -> None:
    """Add the lines again, invisible, each stretched to the width of its visible line."""
    from fpdf.enums import TextMode

    size = text.size * POINT
    file.set_font(FONT, size=size)
    file.text_mode = TextMode.INVISIBLE
    for number, line in enumerate(text.block.lines):
        if line:
            width = text.block.font.getlength(line) * POINT
            file.set_stretching(100 * width / (len(line) * size * ADVANCE / UNITS))
            file.text(text.left * POINT, (text.top + number * text.block.pitch) * POINT + size, line)
