"""A run as a PDF for printing and mailing: a title page and a page per step.

Pillow draws the visible text at the resolution of the page, as on the contact sheet. Text therefore looks the
same in every export, and every script that an installed font supports is shaped correctly. The same text lies
over it invisibly and can be selected, searched and copied, as in a scanned book. Pages are as wide as A4 and
as high as the images need (layout/pages.py).
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from PIL import Image, ImageDraw

from ..report.export_options import PLAIN, ExportOptions
from ..types import Trajectory
from .layout.files import write_whole
from .layout.hidden_font import ADVANCE, UNITS, write_hidden_font
from .layout.pages import JPEG, PAPER, Page, TextBlock, story_pages, write_text
from .layout.shapes import Shape

if TYPE_CHECKING:
    from fpdf import FPDF
    from fpdf.prefs import ViewerPreferences

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
