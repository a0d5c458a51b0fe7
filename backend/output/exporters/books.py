"""A story as a book: a picture book (PDF) whose pages of text face pages of images, and an e-book (EPUB 3).

The text of an image is on the left page and the image on the right one, and the other way round in scripts
that are read from right to left. A two-page view shows both next to each other. The text of all pages has one
size, the largest at which every text fits on its page.

The reading program sets fonts, size and page breaks, so every script and every screen works. The file
contains no script and loads nothing. All text is untrusted: the templates escape it. Dates and the identifier
are fixed by the content, so the same run gives the same file.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core.pictures import Picture
from ...core.shown_text import is_right_to_left, xml_text
from ...core.types import Trajectory
from ..report.export_options import PLAIN, ExportOptions, panels_of
from .export_files import fitted, smaller_file, write_whole, zipped
from .page import TEMPLATES, environment, scaled_image
from .pdf import (
    COVER,
    DATE,
    LOWEST,
    WHOLE,
    WIDTH,
    BookLayout,
    Box,
    Leaf,
    Page,
    aligned,
    pages_pdf,
)
from .typesetting import Block, wrap

PARAGRAPHS = "\n\n"


def book_leaves(trajectory: Trajectory, options: ExportOptions) -> list[Leaf]:
    """Return the parts of a story. The texts of text-only steps go before that of the next image."""
    leaves: list[Leaf] = []
    names: list[str] = []
    texts: list[str] = []
    for panel in panels_of(trajectory):
        names += [panel.name] if panel.name and not options.audience else []
        texts += [panel.text] if panel.text else []
        if panel.picture is not None:
            leaves.append(Leaf(panel.picture, PARAGRAPHS.join(texts), " \u00b7 ".join(names)))
            names, texts = [], []
    if texts:
        leaves.append(Leaf(None, PARAGRAPHS.join(texts), " \u00b7 ".join(names)))
    return leaves


def all_text(title: str, leaves: Sequence[Leaf]) -> str:
    """Return all texts of a book and its title as one text."""
    return PARAGRAPHS.join([*(leaf.text for leaf in leaves if leaf.text), title])


BOOK_FILE = "book.pdf"
SIZES = (0.042, 0.037, 0.033, 0.029, 0.026)
"""Letter heights of the text as shares of the page's width, largest first."""
TITLE, SMALL = 0.058, 0.015
TITLE_LINES = 5
MEASURE = 0.74
"""Maximum width of a line of text as a share of the page's width."""
SPACING = 1.55


def export_picture_book(trajectory: Trajectory, folder: Path, options: ExportOptions = PLAIN) -> Path:
    """Write `folder`/book.pdf and return its path.

    Raises:
        SettingsError: The language is unknown.
        JournalError: The folder cannot be written.
    """
    pages, backwards = book_pages(trajectory, WIDTH, options)
    data = pages_pdf(pages, options.title_of(trajectory), "R2L" if backwards else "L2R")
    return write_whole(Path(folder) / BOOK_FILE, data)


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
    title = options.title_of(trajectory)
    leaves = book_leaves(trajectory, options)
    book = _Book(leaves, width)
    pages = [book.cover(title)]
    for leaf, block in zip(leaves, book.blocks, strict=True):
        texts = list(book.text_pages(leaf, block))
        # Page 0 is the cover, so pages with an odd index are the first of a spread.
        if texts and leaf.picture and (len(pages) + len(texts)) % 2:
            # A single image without a text is on the same side as the other images.
            pages.insert(len(pages) - bool(pages[-1].pictures and len(pages) > 1), book.page(""))
        pages += texts
        if leaf.picture:
            pages.append(book.image_page(leaf.picture, "" if texts else leaf.name))
    return book.numbered(pages, book.height - book.margin, 0.5), is_right_to_left(all_text(title, leaves))


class _Book(BookLayout):
    def __init__(self, leaves: Sequence[Leaf], width: int) -> None:
        super().__init__(leaves, width, SMALL)
        pictures = [leaf.picture for leaf in leaves if leaf.picture]
        self.last = pictures[-1] if pictures else None
        tallest = max((picture.size[1] / picture.size[0] for picture in pictures), default=LOWEST)
        self.height = self.high_enough(2 * (self.margin + self.small) + self.inner * tallest)
        self.room = self.bottom - self.margin
        self.blocks: list[Block] = []
        for share in SIZES:
            size = round(width * share)
            self.blocks = [self._lines(leaf.text, size) for leaf in leaves]
            if all(block.height <= self.room for block in self.blocks):
                break

    def cover(self, title: str) -> Page:
        """Return the cover: the title above the story's last image."""
        size = round(self.width * TITLE)
        block = wrap(title, size, self.inner, TITLE_LINES)
        texts = aligned(block, self.margin, self.inner, self.margin + size // 2, 0.5)
        above = self.margin + size // 2 + block.height + size // 2
        if self.last is None or self.bottom - above < self.height * COVER:
            return self.page(title, texts)
        return self.page(title, texts, [(self.last, self._box(self.last.size, above))])

    def text_pages(self, leaf: Leaf, block: Block) -> Iterator[Page]:
        """Yield the pages of a text. If it fits on one page, it is in the middle of it."""
        fitting = max(1, self.room // block.pitch)
        for start in range(0, len(block.lines), fitting):
            used = replace(block, lines=block.lines[start : start + fitting])
            free = self.room - used.height if len(block.lines) <= fitting else 0
            top, side = self.margin + round(free * 0.45), float(is_right_to_left(leaf.text))
            texts = aligned(used, (self.width - used.width) // 2, used.width, top, side)
            yield self.page("" if start else leaf.name, texts)

    def image_page(self, picture: Picture, name: str) -> Page:
        """Return the page of an image, as large as possible."""
        return self.page(name, (), [(picture, self._box(picture.size, self.margin))])

    def _lines(self, text: str, size: int) -> Block:
        block = wrap(text, size, self.width - 2 * round(self.width * (1 - MEASURE) / 2), WHOLE, self.longest)
        return replace(block, pitch=round(size * SPACING))

    def _box(self, size: tuple[int, int], top: int) -> Box:
        """Return the box of an image in the middle of the page, below `top`."""
        width, height = fitted(size, self.inner, self.bottom - top)
        left, top = (self.width - width) // 2, top + (self.bottom - top - height) // 2
        return left, top, left + width, top + height


EPUB_FILE = "story.epub"
MIMETYPE = b"application/epub+zip"
MEDIA = {".png": "image/png", ".jpg": "image/jpeg"}
LONGEST = 2048
"""Maximum side of an image in pixels."""
CONTENTS = 60
"""Maximum characters of a title in the table of contents."""
NAMESPACE = uuid.UUID("8f0c54f0-6c7e-4d0e-9a53-7e2f3f6f6a11")
UNDETERMINED = "und"
SCRIPTS = {
    "ja": re.compile("[\u3040-\u30ff]"),
    "ko": re.compile("[\uac00-\ud7a3]"),
    "zh": re.compile("[\u4e00-\u9fff]"),
    "he": re.compile("[\u0590-\u05ff]"),
    "th": re.compile("[\u0e00-\u0e7f]"),
    "el": re.compile("[\u0370-\u03ff]"),
    "ru": re.compile("[\u0400-\u04ff]"),
    "ar": re.compile("[\u0600-\u06ff]"),
    "hi": re.compile("[\u0900-\u097f]"),
}
"""Languages by their script. Japanese comes first, since it also uses the letters of Chinese."""
SHARED = ("ru", "ar", "hi")
"""Languages whose script many others use."""
SHARE = 0.1
"""Minimum share of the letters of a script in a text of its language."""


def export_epub(trajectory: Trajectory, folder: Path, options: ExportOptions = PLAIN) -> Path:
    """Write `folder`/story.epub and return its path.

    Raises:
        SettingsError: The language is unknown.
        JournalError: The folder cannot be written.
    """
    return write_whole(Path(folder) / EPUB_FILE, story_epub(trajectory, options))


def story_epub(trajectory: Trajectory, options: ExportOptions = PLAIN) -> bytes:
    """Return the run as the content of an EPUB file."""
    title = " ".join(xml_text(options.title_of(trajectory)).split()) or "?"
    leaves = book_leaves(trajectory, options)
    text = all_text(title, leaves)
    images = _Images()
    cover = next((leaf.picture for leaf in reversed(leaves) if leaf.picture), None)
    values: dict[str, Any] = {
        "title": title,
        "language": language_of(text, options),
        "direction": "rtl" if is_right_to_left(text) else "ltr",
        "description": "" if options.audience else xml_text(trajectory.request.text).strip(),
        "modified": DATE.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "cover": cover and images.add(cover),
        "pages": [_page(number, leaf, title, images) for number, leaf in enumerate(leaves, 1)],
    }
    files = {
        "META-INF/container.xml": _rendered("container.xml.j2"),
        "EPUB/nav.xhtml": _rendered("nav.xhtml.j2", **values),
        "EPUB/cover.xhtml": _rendered("cover.xhtml.j2", **values),
        "EPUB/book.css": (TEMPLATES / "book.css").read_text(encoding="utf-8"),
    }
    for page in values["pages"]:
        files[f"EPUB/{page['file']}"] = _rendered("page.xhtml.j2", **values, page=page)
    identifier = uuid.uuid5(NAMESPACE, "\0".join([*files.values(), *images.files])).urn
    listed = [
        (f"image-{number}", path, MEDIA[Path(path).suffix])
        for number, (path, _) in enumerate(images.files.values(), 1)
    ]
    files["EPUB/package.opf"] = _rendered("package.opf.j2", **values, identifier=identifier, images=listed)
    packed = {"mimetype": MIMETYPE}  # first and stored, as the format requires
    packed |= {name: written.encode("utf-8") for name, written in files.items()}
    return zipped(packed | {f"EPUB/{path}": data for path, data in images.files.values()})


def language_of(text: str, options: ExportOptions) -> str:
    """Return the language tag of a story.

    The user's language is returned if the script of the story allows it. Otherwise, a script that only one
    language uses decides.
    """
    given = options.language if "language" in options.model_fields_set else ""
    counts = {tag: len(script.findall(text)) for tag, script in SCRIPTS.items()}
    found = next((tag for tag, count in counts.items() if count > len(text) * SHARE), "")
    base = given.partition("-")[0]
    if found:
        return given if base == found else UNDETERMINED if found in SHARED else found
    return given if base and base not in SCRIPTS else UNDETERMINED


class _Images:
    """The images of a book, small ones enlarged: path and content by digest, so that each is stored once."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[str, bytes]] = {}

    def add(self, picture: Picture) -> str:
        """Add an image and return its path in the book."""
        if picture.digest not in self.files:
            ending, data = smaller_file(scaled_image(picture, LONGEST, enlarge=True))
            self.files[picture.digest] = f"images/{len(self.files) + 1:04}{ending}", data
        return self.files[picture.digest][0]


def _page(number: int, leaf: Leaf, title: str, images: _Images) -> dict[str, Any]:
    text = xml_text(leaf.text).strip()
    name = " ".join(xml_text(leaf.name).split())
    first = " ".join(text.split())
    contents = name or (first if len(first) <= CONTENTS else f"{first[:CONTENTS].rstrip()}\u2026")
    return {
        "file": f"page_{number:04}.xhtml",
        "name": name,
        "contents": contents or f"{number}",
        "paragraphs": [line.strip() for line in text.splitlines() if line.strip()],
        "image": leaf.picture and images.add(leaf.picture),
        "alt": first or name or title,
    }


def _rendered(template: str, **values: Any) -> str:
    return environment().get_template(template).render(values)
