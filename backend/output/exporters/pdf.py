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
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from PIL import Image, ImageDraw

from ...core.pictures import Picture
from ...core.types import StopReason, Trajectory
from ...story.outcomes import StoryStep, stop_sentence, story_steps, summarize
from ..report.export_options import PLAIN, ExportOptions, Words, given_panels, panels_of
from .export_files import JPEG, encoded, fitted, write_whole
from .typesetting import INK, PAPER, SOFT, Block, Color, drawable, wrap

if TYPE_CHECKING:
    from fpdf import FPDF
    from fpdf.prefs import ViewerPreferences


Box = tuple[int, int, int, int]
Point = tuple[float, float]
Placed = tuple[Picture, Box]
"""An image and its place on a page: left, top, right and bottom in pixels."""
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


@dataclass(frozen=True)
class TextBlock:
    """A block of text on a page: its lines, left and top edge in pixels, and colors."""

    block: Block
    left: int
    top: int
    color: Color = INK
    paper: Color = PAPER

    @property
    def size(self) -> int:
        """Height of the letters in pixels."""
        return self.block.font.size

    @property
    def box(self) -> Box:
        """Left, top, right and bottom in pixels."""
        right = self.left + self.block.width + self.size // 4
        return self.left, self.top, right, self.top + self.block.height


def aligned(
    block: Block, left: int, width: int, top: int, place: float, color: Color = INK
) -> tuple[TextBlock, ...]:
    """Return the lines of a block, each on its own, in an area of `width` pixels.

    `place` is the side at which they are: 0 left, 0.5 in the middle, 1 right.
    """
    return tuple(
        TextBlock(
            replace(block, lines=(line,)),
            left + round(max(0.0, width - block.font.getlength(line)) * place),
            top + number * block.pitch,
            color,
        )
        for number, line in enumerate(block.lines)
        if line
    )


@dataclass(frozen=True)
class Page:
    """One page, in pixels. Shapes are drawn over the images, and texts over the shapes.

    `name` is its title in a table of contents, and empty for a continued page.
    """

    size: tuple[int, int]
    name: str
    pictures: tuple[Placed, ...] = ()
    texts: tuple[TextBlock, ...] = ()
    shapes: tuple[Shape, ...] = ()


def page_image(page: Page) -> Image.Image:
    """Render a page as an RGB image."""
    image = Image.new("RGB", page.size, PAPER)
    canvas = ImageDraw.Draw(image)
    for picture, (left, top, right, bottom) in page.pictures:
        image.paste(picture.image.resize((right - left, bottom - top), Image.Resampling.LANCZOS), (left, top))
    for shape in page.shapes:
        draw_shape(image, shape)
    for text in page.texts:
        text.block.draw(canvas, text.left, text.top, text.color)
    return image


@dataclass(frozen=True)
class Leaf:
    """Content of a page or spread: an image, a text, or both.

    Attributes:
        picture: Image.
        text: Text, empty if there is none.
        name: Name of the step; empty in exports for an audience.
        mark: Verdict on the image, in exports that show it.
        contents: Title in the table of contents.
    """

    picture: Picture | None
    text: str
    name: str = ""
    mark: str = ""
    contents: str = ""


class BookLayout:
    """The dimensions shared by all pages of a book, in pixels.

    Args:
        leaves: Its content.
        width: Width of a page.
        small: Height of the smallest letters, as a share of the width.
    """

    height: int

    def __init__(self, leaves: Sequence[Leaf], width: int, small: float) -> None:
        self.width, self.margin, self.small = width, round(width * 0.06), round(width * small)
        self.inner = width - 2 * self.margin
        self.longest = max(MAX_STORY_LENGTH // 100, MAX_STORY_LENGTH // max(1, len(leaves)))

    @property
    def bottom(self) -> int:
        """End of a page's content, above the small line."""
        return self.height - self.margin - 2 * self.small

    def high_enough(self, content: float) -> int:
        """Return the height of a page for content of this height."""
        return round(min(max(content, self.width * LOWEST), self.width * HIGHEST))

    def page(self, name: str, texts: Sequence[TextBlock] = (), pictures: Sequence[Placed] = ()) -> Page:
        """Return a page with these texts and images."""
        return Page((self.width, self.height), name, tuple(pictures), tuple(texts))

    def line(self, text: str, top: int, place: float) -> tuple[TextBlock, ...]:
        """Return a small line, at the side `place` of `aligned`."""
        block = wrap(text, self.small, self.inner * 3 // 4, 1)
        return aligned(block, self.margin, self.inner, top, place, SOFT)

    def numbered(self, pages: list[Page], top: int, place: float) -> list[Page]:
        """Add page numbers, except on the first page and on empty ones."""
        return [
            replace(page, texts=(*page.texts, *self.line(str(number), top, place)))
            if number > 1 and (page.pictures or page.texts)
            else page
            for number, page in enumerate(pages, start=1)
        ]


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
    panels = panels_of(trajectory) if options.audience else given_panels(trajectory)
    leaves = [Leaf(panel.picture, panel.text) for panel in panels]
    leaves += [] if options.audience else [_leaf(shown, words) for shown in story_steps(trajectory)]
    book = _Book(leaves, width)
    sums = "" if options.audience else words.heard(summarize(trajectory).sentence)
    pages = list(book.title(trajectory, options.title_of(trajectory), sums))
    pages += [page for leaf in leaves for page in book.leaf(leaf)]
    return book.numbered(pages, book.bottom + book.small, 1.0)


class _Book(BookLayout):
    def __init__(self, leaves: list[Leaf], width: int) -> None:
        super().__init__(leaves, width, 0.016)
        self.heading, self.plain = round(width * 0.032), round(width * 0.024)
        pictures = [leaf.picture for leaf in leaves if leaf.picture]
        tallest = max((self._shown(picture)[1] for picture in pictures), default=round(self.inner * 0.4))
        words = max((self._name_height(leaf) + self._lines(leaf.text).height for leaf in leaves), default=0)
        self.height = self.high_enough(2 * self.margin + tallest + self.plain + words + 3 * self.small)

    def title(self, trajectory: Trajectory, title: str, sentence: str) -> Iterator[Page]:
        """Yield the title page, and further pages for a long request.

        `sentence` is the summary of the run, empty for an audience.
        """
        lines = wrap(title, round(self.heading * 1.5), self.inner, WHOLE, WHOLE)
        name = TextBlock(lines, self.margin, self.margin + self.plain)
        request = trajectory.request.text.strip()
        rest = self._lines("" if not sentence or request.rstrip(".") == title else request)
        sums = TextBlock(
            wrap(sentence, self.small, self.inner, 2), self.margin, self.bottom - 2 * self.small, SOFT
        )
        first, rest = self._take(rest, name.box[3] + self.plain, sums.top - self.small, SOFT)
        top, bottom = (first or [name])[-1].box[3] + self.plain, sums.top - self.plain
        cover: list[Placed] = []
        last = next((result.image for result in reversed(trajectory.results) if result.image), None)
        if last and bottom - top >= self.height * COVER:
            width, height = self._shown(last, bottom - top)
            cover = [(last, (self.margin, top, self.margin + width, top + height))]
        yield self.page(title, (name, *first, sums), cover)
        yield from self._further(rest, SOFT)

    def leaf(self, leaf: Leaf) -> Iterator[Page]:
        """Yield the page of a step, and further pages for a long text."""
        top, name_height = self.margin + round(self.height * 0.12), self._name_height(leaf)
        pictures: list[Placed] = []
        if leaf.picture:
            # A caption gets what it needs, but at most a third of the page.
            words = self.plain + name_height + self._lines(leaf.text).height
            caption = min(words, max(self.plain + name_height, self.height // 3))
            width, height = self._shown(leaf.picture, self.bottom - self.margin - caption)
            left = (self.width - width) // 2
            pictures = [(leaf.picture, (left, self.margin, left + width, self.margin + height))]
            top = self.margin + height + self.plain
        texts = [TextBlock(self._name(leaf), self.margin, top)] if leaf.name else []
        top += name_height
        first, rest = self._take(self._lines(leaf.text), top, self.bottom, INK)
        mark = self.line(leaf.mark, self.bottom + self.small, 0.0)
        yield self.page(leaf.contents, (*texts, *first, *mark), pictures)
        yield from self._further(rest, INK)

    def _further(self, block: Block, color: Color) -> Iterator[Page]:
        while block.lines:
            texts, block = self._take(block, self.margin, self.bottom, color)
            yield self.page("", texts)

    def _take(self, block: Block, top: int, bottom: int, color: Color) -> tuple[list[TextBlock], Block]:
        """Return the lines that fit above `bottom`, and the rest."""
        fitting = max(0, (bottom - top) // block.pitch)
        taken = replace(block, lines=block.lines[:fitting])
        texts = [TextBlock(taken, self.margin, top, color)] if taken.lines else []
        return texts, replace(block, lines=block.lines[fitting:])

    def _lines(self, text: str) -> Block:
        return wrap(text, self.plain, self.inner, WHOLE, self.longest)

    def _name(self, leaf: Leaf) -> Block:
        return wrap(leaf.name, self.heading, self.inner, NAME_LINES)

    def _name_height(self, leaf: Leaf) -> int:
        return self._name(leaf).height + self.plain // 3 if leaf.name else 0

    def _shown(self, picture: Picture, room: int | None = None) -> tuple[int, int]:
        return fitted(picture.size, self.inner, room or self.inner * 1.2)


def _leaf(shown: StoryStep, words: Words) -> Leaf:
    step, result, name = shown.step, shown.result, shown.step.name.strip()
    image = result.image if result else None
    text = step.auxiliary_text or step.instruction or ""
    skipped = result is not None and result.stop_reason is StopReason.skipped
    if step.prompt and not skipped and not image:
        text = "\n".join(part for part in (text, step.prompt) if part)
    contents = name[:CONTENTS] or words.say("Step {number}", number=step.number)
    return Leaf(image, text, name, mark_of(shown, words), contents)


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
        texts = (text.block for page in pages for text in page.texts)
        write_hidden_font((letter for block in texts for letter in "".join(block.lines)), font)
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


def _place(file: FPDF, image: Image.Image | io.BytesIO, box: Box) -> None:
    left, top, right, bottom = (side * POINT for side in box)
    file.image(image, left, top, right - left, bottom - top)


def _smaller(image: Image.Image) -> Image.Image | io.BytesIO:
    """Return the image for lossless storage, or as high-quality JPEG if that is smaller."""
    jpeg = encoded(image, "JPEG", **JPEG)
    return image if len(zlib.compress(image.tobytes(), 6)) <= len(jpeg) else io.BytesIO(jpeg)


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
    text.block.draw(ImageDraw.Draw(shades), 0, 0, 255)
    image = Image.frombytes("P", shades.size, shades.tobytes())
    image.putpalette(
        bytes(
            round(low + (high - low) * share / 255)
            for share in range(256)
            for low, high in zip(text.paper, text.color, strict=True)
        )
    )
    return image


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
