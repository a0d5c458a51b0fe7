"""A story as a book: a picture book (PDF) whose pages of text face pages of images, and an e-book (EPUB 3).

The text of an image is on the left page and the image on the right one, and the other way round in scripts
that are read from right to left. A two-page view shows both next to each other. The text of all pages has one
size, the largest at which every text fits on its page.

The reading program sets fonts, size and page breaks, so every script and every screen works. The file
contains no script and loads nothing. All text is untrusted: the templates escape it. Dates and the identifier
are fixed by the content, so the same run gives the same file.
"""

from __future__ import annotations

import io
import re
import uuid
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...core.pictures import Picture
from ...core.shown_text import is_right_to_left, xml_text
from ...core.types import Trajectory
from ...story.outcomes import story_steps, summarize
from ..report.export_options import PLAIN, ExportOptions, Words, panels_of
from .export_files import add_file, write_whole
from .page import TEMPLATES, scaled_image, templates_in
from .pdf import (
    DATE,
    HIGHEST,
    INK,
    LOWEST,
    MAX_STORY_LENGTH,
    SOFT,
    WHOLE,
    WIDTH,
    Color,
    Page,
    TextBlock,
    mark_of,
    pages_pdf,
    smaller_file,
)
from .typesetting import Block, drawable, wrap

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


BOOK_FILE = "book.pdf"
SIZES = (0.042, 0.037, 0.033, 0.029, 0.026)
"""Letter heights of the text as shares of the page's width, largest first."""
TITLE, SMALL = 0.058, 0.015
TITLE_LINES = 5
MEASURE = 0.74
"""Maximum width of a line of text as a share of the page's width."""
SPACING = 1.55
COVER = 0.25


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
    parts = book_parts(trajectory, options, options.words)
    text = all_text(title, parts)
    images = _Images()
    cover = next((part.picture for part in reversed(parts) if part.picture), None)
    values: dict[str, Any] = {
        "title": title,
        "language": language_of(text, options),
        "direction": "rtl" if is_right_to_left(text) else "ltr",
        "description": "" if options.audience else xml_text(trajectory.request.text).strip(),
        "modified": DATE.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "cover": cover and images.add(cover),
        "pages": [_page(number, part, title, images) for number, part in enumerate(parts, 1)],
    }
    files = {
        "META-INF/container.xml": _rendered("container.xml.j2"),
        "EPUB/nav.xhtml": _rendered("nav.xhtml.j2", **values),
        "EPUB/cover.xhtml": _rendered("cover.xhtml.j2", **values),
        "EPUB/book.css": (TEMPLATES / "book.css").read_text(encoding="utf-8"),
    }
    for page in values["pages"]:
        files[f"EPUB/{page['file']}"] = _rendered("page.xhtml.j2", **values, page=page)
    content = "\0".join([*files.values(), *images.digests])
    identifier = uuid.uuid5(NAMESPACE, content).urn
    files["EPUB/package.opf"] = _rendered(
        "package.opf.j2", **values, identifier=identifier, images=images.listed
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        add_file(archive, "mimetype", MIMETYPE)  # first and stored, as the format requires
        for name, written in files.items():
            add_file(archive, name, written.encode("utf-8"), compress=True)
        for name, data in images.files.items():
            add_file(archive, f"EPUB/{name}", data)
    return buffer.getvalue()


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
    """The images of a book, small ones enlarged. An image that is added twice is stored once."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._names: dict[str, str] = {}

    def add(self, picture: Picture) -> str:
        """Add an image and return its path in the book."""
        if picture.digest not in self._names:
            ending, data = smaller_file(scaled_image(picture, LONGEST, enlarge=True))
            name = f"images/{len(self.files) + 1:04}{ending}"
            self.files[name], self._names[picture.digest] = data, name
        return self._names[picture.digest]

    @property
    def digests(self) -> list[str]:
        """Digest of every image, in the order of the files."""
        return list(self._names)

    @property
    def listed(self) -> list[tuple[str, str, str]]:
        """Id, path and media type of every image."""
        return [
            (f"image-{number}", name, MEDIA[Path(name).suffix]) for number, name in enumerate(self.files, 1)
        ]


def _page(number: int, part: BookPart, title: str, images: _Images) -> dict[str, Any]:
    text = xml_text(part.text).strip()
    name = " ".join(xml_text(part.name).split())
    first = " ".join(text.split())
    contents = name or (first if len(first) <= CONTENTS else f"{first[:CONTENTS].rstrip()}\u2026")
    return {
        "file": f"page_{number:04}.xhtml",
        "name": name,
        "contents": contents or f"{number}",
        "paragraphs": [line.strip() for line in text.splitlines() if line.strip()],
        "image": part.picture and images.add(part.picture),
        "alt": first or name or title,
        "mark": xml_text(part.mark),
    }


def _rendered(template: str, **values: Any) -> str:
    return templates_in(TEMPLATES).get_template(template).render(values)
