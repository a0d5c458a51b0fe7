"""A story as a comic: a cover and pages of panels, as a comic archive (CBZ), PNG files or a PDF.

All three share one layout. In the archive and the PNG files, text is part of the image, since comic readers
show only images. In the PDF, text can be selected. Dates in the archive are fixed, so the same run gives the
same file.

Images are never cropped. A storyboard has columns of equal width. Otherwise all images of a row have the same
height and together fill the page width. Among the ways to break the panels of a page into rows, the one with
the largest total image area is used. Letters have the same size on all pages and shrink only where a text
does not fit. If even the smallest size does not fit, the page gets fewer panels.

Only text in quotation marks is speech. The text does not tell who speaks, so the tail of a balloon points to
the middle of the image. If the balloons would cover too much of the image, the text stays in the caption.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args
from xml.etree import ElementTree

from ...core.errors import SettingsError
from ...core.pictures import Picture
from ...core.shown_text import xml_text
from ...core.types import Trajectory
from ..report.export_options import PLAIN, ExportOptions, Panel, panels_of
from .export_files import encoded, fitted, smaller_file, write_whole, zipped
from .pdf import WHITE, Box, Page, Placed, Shape, TextBlock, aligned, page_image, pages_pdf
from .pdf import WIDTH as PDF_WIDTH
from .typesetting import INK, Block, Color, wrap

MAX_ROW = 3
MAX_WAYS = 64


def page_groups(panels: list[Panel], most: int) -> list[list[Panel]]:
    """Split panels into pages with about the same number of images.

    Texts without an image stay on the page of the image before them.
    """
    counted = [panel for panel in panels if panel.picture] or panels
    if not counted:
        return []
    pages = math.ceil(len(counted) / most)
    ends = [round(len(counted) * page / pages) for page in range(1, pages)]
    firsts = [0, *(panels.index(counted[end]) for end in ends), len(panels)]
    return [panels[first:last] for first, last in itertools.pairwise(firsts)]


def shot_groups(panels: list[Panel], most: int) -> list[list[Panel]]:
    """Return the full pages of a storyboard, with number and name of each step above its text."""
    shots = []
    for panel in panels:
        heading = f"{panel.number}. {panel.name}".strip()
        shots.append(panel.model_copy(update={"text": "\n".join(filter(None, (heading, panel.text)))}))
    return [shots[first : first + most] for first in range(0, len(shots), most)]


def even_rows(group: list[Panel], columns: int) -> list[int]:
    """Return the sizes of rows that are filled from left to right. A text without an image fills a row."""
    sizes: list[int] = []
    for alone, panels in itertools.groupby(group, key=lambda panel: panel.picture is None):
        full, rest = divmod(len(list(panels)), 1 if alone else columns)
        sizes += [*([1 if alone else columns] * full), *([rest] if rest else [])]
    return sizes


def row_breaks(group: list[Panel]) -> list[list[int]]:
    """Return ways to break panels into rows.

    A text without an image gets a row of its own. The others are in rows of up to three panels, whose lengths
    differ by at most one.
    """
    ways: list[list[int]] = [[]]
    for alone, panels in itertools.groupby(group, key=lambda panel: panel.picture is None):
        number = len(list(panels))
        if alone:
            ways = [[*way, *[1] * number] for way in ways]
            continue
        splits = []
        for rows in range(math.ceil(number / MAX_ROW), number + 1):
            less, more = divmod(number, rows)
            sizes = [less + 1] * more + [less] * (rows - more)
            splits += [sizes] if sizes == sizes[::-1] else [sizes, sizes[::-1]]
        ways = [[*way, *split] for way in ways for split in splits][:MAX_WAYS]
    return ways


SAID = re.compile(r"“([^”]+)”|\"([^\"]+)\"|„([^“”]+)[“”]|«([^»]+)»|「([^」]+)」|『([^』]+)』")
"""Quotation marks of the supported languages."""
SPOKEN = "\0"
SENTENCE = re.compile(r"[^.!?。！？]*[.!?。！？]*")
WIDE = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
NARRATED_END = re.compile(r"[,，、]$")
FULL_STOPS = {",": ".", "，": "。", "、": "。"}
"""A final comma in a quote is only needed by narration after it. These full stops replace it."""
FEW_WORDS, FEW_LETTERS = 3, 6
"""A sentence around speech of at most this length only names the speaker."""
MAX_HEIGHT, MAX_WIDTH = 0.42, 0.62
"""Maximum share of the image for the height of all balloons and the width of one."""
TAIL = 0.11
BALLOON_LETTERS = (1.0, 0.85, 0.72)
ALL = 1_000_000


def speech(text: str) -> tuple[list[str], str]:
    """Split a text into its spoken parts and the rest, without phrases such as "said the fish"."""
    said = _as_spoken(
        [next(part for part in found.groups() if part).strip() for found in SAID.finditer(text)]
    )
    kept = []
    for sentence in SENTENCE.findall(SAID.sub(SPOKEN, text)):
        plain = sentence.replace(SPOKEN, "" if WIDE.search(sentence) else " ")
        plain = " ".join(plain.split()).lstrip(" ,;:，：")
        short = len(plain) <= FEW_LETTERS if WIDE.search(plain) else len(plain.split()) <= FEW_WORDS
        if SPOKEN not in sentence or not short:
            kept.append(re.sub(r"\s+([.,;:!?。，：])", r"\1", plain).rstrip(" :：,，"))
    return said, " ".join(one for one in kept if any(letter.isalnum() for letter in one))


def _as_spoken(quoted: list[str]) -> list[str]:
    """Return quoted text as shown in a balloon, where no narration follows.

    A comma before "said the fish" becomes a full stop. If the next quote continues the sentence (its first
    letter is lowercase), both become one balloon.
    """
    spoken: list[str] = []
    for words in quoted:
        if spoken and NARRATED_END.search(spoken[-1]) and words[:1].islower():
            spoken[-1] = f"{spoken[-1]} {words}"
        else:
            spoken.append(words)
    return [NARRATED_END.sub(lambda comma: FULL_STOPS[comma.group()], words) for words in spoken]


@dataclass(frozen=True)
class Balloon:
    """One balloon: its outline and its text, in pixels from the upper left corner of the image."""

    shape: Shape
    text: TextBlock

    def at(self, left: int, top: int) -> Balloon:
        """Return the balloon in an image at this position of the page."""
        box, tail = self.shape.box, self.shape.tail
        moved = box[0] + left, box[1] + top, box[2] + left, box[3] + top
        shape = replace(self.shape, box=moved, tail=tail and (tail[0] + left, tail[1] + top))
        return Balloon(shape, replace(self.text, left=self.text.left + left, top=self.text.top + top))


def balloons(said: list[str], size: tuple[int, int], letters: int, line: int) -> list[Balloon]:
    """Lay out balloons in an image, alternating left and right.

    Args:
        said: Text of each balloon.
        size: Width and height of the image in pixels.
        letters: Height of the letters in pixels. Smaller letters are used if necessary.
        line: Width of the outlines in pixels.

    Returns:
        The balloons; none if they do not fit.
    """
    for share in BALLOON_LETTERS if said else ():
        found = _placed(said, size, round(letters * share), line)
        if found[-1].shape.box[3] <= size[1] * MAX_HEIGHT:
            return found
    return []


def _placed(said: list[str], size: tuple[int, int], letters: int, line: int) -> list[Balloon]:
    width, height = size
    edge, pad, found = round(width * 0.03), round(letters * 0.8), []
    top = round(height * 0.03)
    for number, words in enumerate(said):
        block = wrap(words, letters, max(letters, round(width * MAX_WIDTH) - 2 * pad), ALL, ALL)
        left = edge if number % 2 == 0 else width - edge - block.width - 2 * pad
        box = left, top, left + block.width + 2 * pad, top + block.height + 2 * pad - letters // 3
        middle = (box[0] + box[2]) / 2
        tail = middle + (width / 2 - middle) * 0.35, box[3] + height * TAIL
        shape = Shape(box, WHITE, INK, line, round=round(letters * 1.3), tail=tail)
        found.append(Balloon(shape, TextBlock(block, left + pad, top + pad - letters // 6, INK, WHITE)))
        top = box[3] + round(height * 0.03)
    return found


Lettering = Literal["captions", "balloons", "none", "shots"]
MAX_PANELS = 9
HIGHEST, LOWEST = 1.414, 0.6
"""Maximum (A4) and minimum height of a page as a share of its width."""
MIN_PICTURE = 0.5
"""Minimum scale of a row's images before a page gets fewer panels."""
TITLE_SIZES = (0.085, 0.07, 0.058, 0.048, 0.04, 0.032)
"""Letter heights of a cover's title as shares of its width. The largest that fits is used."""
LETTER_SIZES = (1.0, 0.9, 0.8, 0.7)
MAX_CAPTION = 0.8
"""Maximum height of a caption as a share of its image's height."""
CREAM = (255, 251, 235)
COLUMNS = 2
"""Images in a row of a storyboard."""


@dataclass(frozen=True)
class _Cell:
    """A panel with its dimensions in pixels: of the cell, of its image, and of its text."""

    panel: Panel
    size: tuple[int, int]
    picture: tuple[int, int]
    caption: Block | None = None
    balloons: tuple[Balloon, ...] = ()


Row = list[_Cell]


def comic_pages(
    panels: Sequence[Panel],
    title: str,
    width: int,
    most: int = 4,
    lettering: Lettering = "captions",
) -> list[Page]:
    """Lay out a cover and pages, all of one size.

    Args:
        panels: Panels of the story in order.
        title: Title of the comic.
        width: Width of a page in pixels.
        most: Maximum number of panels per page, 1 to 9.
        lettering: Where the text of a panel goes.

    Raises:
        SettingsError: `most` or `lettering` is out of range.
    """
    if not 1 <= most <= MAX_PANELS:
        raise SettingsError(f"panels must be 1 to {MAX_PANELS} (given: {most}).")
    if lettering not in get_args(Lettering):
        raise SettingsError(
            f"Unknown lettering {lettering!r}.", f"Use one of {', '.join(get_args(Lettering))}."
        )
    groups = shot_groups if lettering == "shots" else page_groups
    return _Book(width, lettering).pages(groups(list(panels), most), title)


class _Book:
    """The dimensions shared by all pages."""

    def __init__(self, width: int, lettering: Lettering) -> None:
        self.width, self.lettering = width, lettering
        self.columns = COLUMNS if lettering == "shots" else None
        self.margin, self.gutter = round(width * 0.045), round(width * 0.02)
        self.inner = width - 2 * self.margin
        self.letters = round(width * 0.0215)
        self.pad, self.line = round(width * 0.012), max(1, round(width * 0.0022))
        self.room = round(width * HIGHEST) - 2 * self.margin

    def pages(self, groups: list[list[Panel]], title: str) -> list[Page]:
        """Return the cover and the pages of every group. Long texts need more than one page per group."""
        laid = [page for group in groups for page in self._laid(group)]
        tallest = max((self._height(rows) for rows in laid), default=0)
        lowest = round(self.width * LOWEST) if laid else self.width
        height = min(max(tallest + 2 * self.margin, lowest), round(self.width * HIGHEST))
        shown = [panel.picture for group in groups for panel in group if panel.picture]
        cover = self._cover(height, title, shown[-1] if shown else None)
        return [cover, *(self._page(rows, height) for rows in laid)]

    def _laid(self, group: list[Panel]) -> list[list[Row]]:
        """Lay out a group on one page, or on more if its texts would leave the images too small."""
        ways = [even_rows(group, self.columns)] if self.columns else row_breaks(group)
        laid = [rows for sizes in ways if (rows := self._fitted(group, sizes))]
        if laid:
            return [max(laid, key=_area)]
        if len(group) == 1:
            return [[[self._cut(group[0])]]]
        half = (len(group) + 1) // 2
        return [*self._laid(group[:half]), *self._laid(group[half:])]

    def _fitted(self, group: list[Panel], sizes: Sequence[int]) -> list[Row] | None:
        """Return the group in rows of these sizes, scaled down to fit the page, or None if it cannot fit."""
        ends = list(itertools.accumulate(sizes))
        parts = [group[end - size : end] for end, size in zip(ends, sizes, strict=True)]
        share = 1.0
        while share >= MIN_PICTURE:
            laid = (self._row(part, share) for part in parts)
            rows = [row for row in itertools.takewhile(bool, laid) if row]
            if len(rows) == len(parts) and self._height(rows) <= self.room:
                return rows
            share -= 0.05
        return None

    def _row(self, panels: list[Panel], share: float) -> Row | None:
        shapes = list(map(_shape, panels))
        free = self.inner - self.gutter * ((self.columns or len(panels)) - 1)
        widths = max(shapes) * self.columns if self.columns else sum(shapes)
        height = round(min(free / (widths or 1.0), self.room) * share)
        row: Row = []
        for panel, shape in zip(panels, shapes, strict=True):
            cell = self._cell(panel, round(height * shape) or self.inner, height if shape else 0)
            if cell is None:
                return None
            row.append(cell)
        tallest = max(cell.size[1] for cell in row)
        return [replace(cell, size=(cell.size[0], tallest)) for cell in row]

    def _cell(self, panel: Panel, width: int, height: int) -> _Cell | None:
        text, spoken = self._lettered(panel, (width, height))
        plain = _Cell(panel, (width, height), (width, height), None, tuple(spoken))
        if not text:
            return plain
        for share in LETTER_SIZES:
            size = round(self.letters * share * (1.0 if height else 1.15))
            block = wrap(text, size, width - 2 * self.pad, ALL, ALL)
            most = MAX_CAPTION * height if height else self.room - 2 * self.pad
            if block.height <= most:
                whole = height + block.height + 2 * self.pad
                return replace(plain, size=(width, whole), caption=block)
        return None

    def _lettered(self, panel: Panel, size: tuple[int, int]) -> tuple[str, list[Balloon]]:
        """Return the text below an image of this size, and the balloons inside it."""
        if not size[1]:
            return panel.text, []
        if self.lettering == "balloons":
            said, rest = speech(panel.text)
            if found := balloons(said, size, self.letters, self.line):
                return rest, found
        return "" if self.lettering == "none" else panel.text, []

    def _cut(self, panel: Panel) -> _Cell:
        """Return a panel on a page of its own whose text still does not fit. The text ends in an ellipsis."""
        shape = _shape(panel)
        height = round(min(self.inner / shape, self.room * 0.55)) if shape else 0
        width = round(height * shape) or self.inner
        size = round(self.letters * LETTER_SIZES[-1])
        lines = (self.room - height - 2 * self.pad) // round(size * 1.35)
        block = wrap(panel.text, size, self.inner - 2 * self.pad, lines, ALL)
        whole = height + block.height + 2 * self.pad
        return _Cell(panel, (max(width, self.inner), whole), (width, height), block)

    def _height(self, rows: list[Row]) -> int:
        return sum(row[0].size[1] for row in rows) + self.gutter * (len(rows) - 1)

    def _page(self, rows: list[Row], height: int) -> Page:
        free = height - 2 * self.margin - self._height(rows)
        # Center the content of a nearly full page. A page with few panels starts at the top.
        top = self.margin + (free // 2 if free < height * 0.15 else 0)
        name = next((cell.panel.name for row in rows for cell in row if cell.panel.name), "")
        page = Page((self.width, height), name)
        for row in rows:
            widths = sum(cell.size[0] for cell in row) + self.gutter * (len(row) - 1)
            left = self.margin + (0 if self.columns else (self.inner - widths) // 2)
            for cell in row:
                page = self._with_cell(page, cell, left, top)
                left += cell.size[0] + self.gutter
            top += row[0].size[1] + self.gutter
        return page

    def _with_cell(self, page: Page, cell: _Cell, left: int, top: int) -> Page:
        """Return the page with a cell: image, background of its caption, frame, balloons and texts."""
        right, bottom, below = left + cell.size[0], top + cell.size[1], top + cell.picture[1]
        begin = left + (cell.size[0] - cell.picture[0]) // 2
        paper: Color = WHITE if cell.panel.picture else CREAM
        pictures: list[Placed] = []
        if cell.panel.picture:
            pictures = [(cell.panel.picture, (begin, top, begin + cell.picture[0], below))]
        shapes = [Shape((left, below, right, bottom), paper, INK, self.line)] if below < bottom else []
        shapes.append(Shape((left, top, right, bottom), None, INK, self.line * 2))
        texts = []
        if cell.caption:
            texts.append(TextBlock(cell.caption, left + self.pad, below + self.pad, INK, paper))
        spoken = [one.at(begin, top) for one in cell.balloons]
        return replace(
            page,
            pictures=(*page.pictures, *pictures),
            shapes=(*page.shapes, *shapes, *(one.shape for one in spoken)),
            texts=(*page.texts, *texts, *(one.text for one in spoken)),
        )

    def _cover(self, height: int, title: str, picture: Picture | None) -> Page:
        """Return the cover: the title above the story's last image, as large as possible."""
        free = height - 2 * self.margin
        block = self._title(title, round(free * (0.3 if picture else 0.9)))
        page = Page((self.width, height), title)
        if picture is None:
            top = (height - block.height) // 2
            return replace(page, texts=aligned(block, 0, self.width, top, 0.5))
        room = free - block.height - self.gutter * 2
        shown = fitted(picture.size, self.inner, room)
        top = self.margin + (room - shown[1]) // 2
        left, upper = (self.width - shown[0]) // 2, top + block.height + self.gutter * 2
        box: Box = (left, upper, left + shown[0], upper + shown[1])
        frame = Shape(box, None, INK, self.line * 2)
        texts = aligned(block, 0, self.width, top, 0.5)
        return replace(page, pictures=((picture, box),), texts=texts, shapes=(frame,))

    def _title(self, title: str, room: int) -> Block:
        """Return the lines of the title, with letters as large as `room` pixels of height allow.

        A title that does not fit in the smallest size ends in an ellipsis.
        """
        sizes = [round(self.width * share) for share in TITLE_SIZES]
        for size in sizes:
            block = wrap(title, size, self.inner, ALL, ALL)
            if block.height <= room:
                return block
        return wrap(title, sizes[-1], self.inner, max(1, room // round(sizes[-1] * 1.35)))


def _shape(panel: Panel) -> float:
    """Return the width of a panel's image as a share of its height, 0 without an image."""
    return panel.picture.size[0] / panel.picture.size[1] if panel.picture else 0.0


def _area(rows: list[Row]) -> int:
    """Return the total area of the images in these rows."""
    return sum(cell.picture[0] * cell.picture[1] for row in rows for cell in row)


FILE_NAME, PDF_NAME, PAGE_NAME = "story.cbz", "comic.pdf", "page_{number:04}.png"
WIDTH = 1600
PANELS = 4


@dataclass(frozen=True)
class ComicExporter:
    """Writes a comic.

    Attributes:
        width: Width of a page in pixels.
        write: Stores the pages in a folder and returns the main file.
    """

    width: int
    write: Callable[[list[Page], Path, Trajectory, ExportOptions], Path]

    def __call__(
        self,
        trajectory: Trajectory,
        folder: Path,
        options: ExportOptions = PLAIN,
        panels: int = PANELS,
        lettering: Lettering = "captions",
    ) -> Path:
        """Write the comic and return its path.

        Args:
            trajectory: A run, finished or not.
            folder: Folder to write into.
            options: Title, language and audience.
            panels: Maximum number of panels per page, 1 to 9.
            lettering: Where the text of a panel goes: "captions", "balloons", "none", or
                "shots": a storyboard, with number and name of the step above the text.

        Raises:
            SettingsError: A value is out of range.
            JournalError: The folder cannot be written.
        """
        title = options.title_of(trajectory)
        pages = comic_pages(panels_of(trajectory), title, self.width, panels, lettering)
        return self.write(pages, Path(folder), trajectory, options)


def _write_archive(pages: list[Page], folder: Path, trajectory: Trajectory, options: ExportOptions) -> Path:
    files = {}
    for number, page in enumerate(pages, start=1):
        ending, data = smaller_file(page_image(page))
        files[f"page_{number:04}{ending}"] = data
    return write_whole(
        folder / FILE_NAME, zipped(files | {"ComicInfo.xml": _info(trajectory, pages, options)})
    )


def _write_pdf(pages: list[Page], folder: Path, trajectory: Trajectory, options: ExportOptions) -> Path:
    return write_whole(folder / PDF_NAME, pages_pdf(pages, options.title_of(trajectory)))


def _write_images(pages: list[Page], folder: Path, trajectory: Trajectory, options: ExportOptions) -> Path:
    """Write page_0001.png (the cover) and the other pages, and return the cover's path."""
    for number, page in enumerate(pages, start=1):
        data = encoded(page_image(page), "PNG", compress_level=6)
        write_whole(folder / PAGE_NAME.format(number=number), data)
    return folder / PAGE_NAME.format(number=1)


def _info(trajectory: Trajectory, pages: list[Page], options: ExportOptions) -> bytes:
    """Return ComicInfo.xml. Its elements are in the order of schema 2.0 (anansi-project/comicinfo)."""
    audience = options.audience
    root = ElementTree.Element("ComicInfo")
    summary = {} if audience else {"Summary": trajectory.request.text}
    for tag, text in {
        "Title": pages[0].name,
        **summary,
        "Notes": "Made with InterleaveThinker.",
        "PageCount": str(len(pages)),
    }.items():
        ElementTree.SubElement(root, tag).text = xml_text(text)
    listed = ElementTree.SubElement(root, "Pages")
    for number, page in enumerate(pages):
        attributes = {"Image": str(number), "ImageWidth": str(page.size[0]), "ImageHeight": str(page.size[1])}
        if number == 0:
            attributes["Type"] = "FrontCover"
        if page.name and not (audience and number):
            attributes["Bookmark"] = xml_text(page.name)
        ElementTree.SubElement(listed, "Page", attributes)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


export_archive = ComicExporter(WIDTH, _write_archive)
export_pdf = ComicExporter(PDF_WIDTH, _write_pdf)
export_pictures = ComicExporter(WIDTH, _write_images)
