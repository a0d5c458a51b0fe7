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

import io
import itertools
import math
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args
from xml.etree import ElementTree

from ...core.errors import SettingsError
from ...core.pictures import Picture
from ...core.shown_text import xml_text
from ...core.types import Trajectory
from ...story.outcomes import story_steps, summarize
from ..report.export_options import PLAIN, ExportOptions, Panel, panels_of
from .export_files import add_file, write_whole
from .pdf import (
    INK,
    SOFT,
    WHITE,
    Box,
    Color,
    Page,
    Point,
    Shape,
    TextBlock,
    mark_of,
    page_image,
    pages_pdf,
    smaller_file,
)
from .pdf import WIDTH as PDF_WIDTH
from .typesetting import Block, drawable, wrap

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


@dataclass(frozen=True)
class Balloon:
    """One balloon, in pixels from the upper left corner of the image. `size` is the height of its letters."""

    box: Box
    tail: Point
    block: Block
    size: int


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


def balloons(said: list[str], size: tuple[int, int], letters: int) -> list[Balloon] | None:
    """Lay out balloons in an image, alternating left and right.

    Args:
        said: Text of each balloon.
        size: Width and height of the image in pixels.
        letters: Height of the letters in pixels. Smaller letters are used if necessary.

    Returns:
        The balloons, or None if they do not fit.
    """
    for share in BALLOON_LETTERS:
        found = _placed(said, size, round(letters * share))
        if found and found[-1].box[3] <= size[1] * MAX_HEIGHT:
            return found
    return None


def _placed(said: list[str], size: tuple[int, int], letters: int) -> list[Balloon]:
    width, height = size
    edge, pad, found = round(width * 0.03), _pad(letters), []
    top = round(height * 0.03)
    for number, words in enumerate(said):
        block = wrap(words, letters, max(letters, round(width * MAX_WIDTH) - 2 * pad), ALL, ALL)
        widest = round(max(block.font.getlength(line) for line in block.lines)) if block.lines else 0
        left = edge if number % 2 == 0 else width - edge - widest - 2 * pad
        box = left, top, left + widest + 2 * pad, top + block.height + 2 * pad - letters // 3
        middle = (box[0] + box[2]) / 2
        tail = middle + (width / 2 - middle) * 0.35, box[3] + height * TAIL
        found.append(Balloon(box, tail, block, letters))
        top = box[3] + round(height * 0.03)
    return found


def _pad(letters: int) -> int:
    return round(letters * 0.8)


def outline_of(balloon: Balloon, left: int, top: int, line: int) -> Shape:
    """Return the outline of a balloon in an image at this position of the page, in pixels."""
    box, tail = balloon.box, (balloon.tail[0] + left, balloon.tail[1] + top)
    placed = box[0] + left, box[1] + top, box[2] + left, box[3] + top
    return Shape(placed, WHITE, INK, line, round=round(balloon.size * 1.3), tail=tail)


def text_of(balloon: Balloon, left: int, top: int) -> TextBlock:
    """Return the text of a balloon in an image at this position of the page, in pixels."""
    pad = _pad(balloon.size)
    x, y = balloon.box[0] + left + pad, balloon.box[1] + top + pad - balloon.size // 6
    return TextBlock(balloon.block, x, y, balloon.size, INK, WHITE)


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
class Comic:
    """Width of a page in pixels, title, and the small line below a panel by step number."""

    width: int
    title: str
    marks: dict[int, str]


@dataclass(frozen=True)
class _Cell:
    """A panel with its dimensions in pixels: of the cell, of its image, and of its text."""

    panel: Panel
    size: tuple[int, int]
    picture: tuple[int, int]
    caption: Block | None
    letters: int
    mark: Block | None
    balloons: tuple[Balloon, ...] = ()

    @property
    def paper(self) -> Color:
        """Color behind the text."""
        return CREAM if self.panel.picture is None else WHITE


Row = list[_Cell]


def comic_pages(
    panels: Sequence[Panel], comic: Comic, most: int = 4, lettering: Lettering = "captions"
) -> list[Page]:
    """Lay out a cover and pages, all of one size.

    Args:
        panels: Panels of the story in order.
        comic: Settings of the comic.
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
    return _Book(comic, lettering).pages(groups(list(panels), most))


class _Book:
    """The dimensions shared by all pages."""

    def __init__(self, comic: Comic, lettering: Lettering) -> None:
        self.comic, self.lettering = comic, lettering
        self.columns = COLUMNS if lettering == "shots" else None
        self.width = comic.width
        self.margin, self.gutter = round(comic.width * 0.045), round(comic.width * 0.02)
        self.inner = comic.width - 2 * self.margin
        self.letters, self.small = round(comic.width * 0.0215), round(comic.width * 0.014)
        self.pad, self.line = round(comic.width * 0.012), max(1, round(comic.width * 0.0022))
        self.room = round(comic.width * HIGHEST) - 2 * self.margin

    def pages(self, groups: list[list[Panel]]) -> list[Page]:
        """Return the cover and the pages of every group. Long texts need more than one page per group."""
        laid = [page for group in groups for page in self._laid(group)]
        tallest = max((self._height(rows) for _, rows in laid), default=0)
        lowest = self.width if not laid else round(self.width * LOWEST)
        height = min(max(tallest + 2 * self.margin, lowest), round(self.width * HIGHEST))
        cover = [panel.picture for group in groups for panel in group if panel.picture]
        return [
            self._cover(height, cover[-1] if cover else None),
            *(self._page(group, rows, height) for group, rows in laid),
        ]

    def _laid(self, group: list[Panel]) -> list[tuple[list[Panel], list[Row]]]:
        """Lay out a group on one page, or on two if its texts would leave the images too small."""
        best: tuple[float, list[Row]] | None = None
        ways = [even_rows(group, self.columns)] if self.columns else row_breaks(group)
        for sizes in ways:
            rows = self._fitted(group, sizes)
            if rows is None:
                continue
            shown = sum(cell.picture[0] * cell.picture[1] for row in rows for cell in row)
            if best is None or shown > best[0]:
                best = shown, rows
        if best is not None:
            return [(group, best[1])]
        if len(group) == 1:
            return [(group, [[self._cut(group[0])]])]
        half = (len(group) + 1) // 2
        return [*self._laid(group[:half]), *self._laid(group[half:])]

    def _fitted(self, group: list[Panel], sizes: Sequence[int]) -> list[Row] | None:
        """Return the group in rows of these sizes, scaled down to fit the page, or None if it cannot fit."""
        share = 1.0
        while share >= MIN_PICTURE:
            rows, first = [], 0
            for size in sizes:
                row = self._row(group[first : first + size], share)
                if row is None:
                    break
                rows.append(row)
                first += size
            else:
                if self._height(rows) <= self.room:
                    return rows
            share -= 0.05
        return None

    def _row(self, panels: list[Panel], share: float) -> Row | None:
        shapes = [panel.picture.size[0] / panel.picture.size[1] if panel.picture else 0.0 for panel in panels]
        free = self.inner - self.gutter * ((self.columns or len(panels)) - 1)
        widths = max(shapes) * self.columns if self.columns else sum(shapes)
        height = round(min(free / (widths or 1.0), self.room) * share)
        row: Row = []
        for panel, shape in zip(panels, shapes, strict=True):
            width = round(height * shape) if shape else self.inner
            cell = self._cell(panel, width, height if shape else 0)
            if cell is None:
                return None
            row.append(cell)
        tallest = max(cell.size[1] for cell in row)
        return [replace(cell, size=(cell.size[0], tallest)) for cell in row]

    def _cell(self, panel: Panel, width: int, height: int) -> _Cell | None:
        mark = self.comic.marks.get(panel.number, "")
        small = wrap(mark, self.small, width - 2 * self.pad, 2) if mark else None
        text, spoken = self._lettered(panel, (width, height))
        below = (small.height + self.pad) if small else 0
        plain = _Cell(panel, (width, height + below), (width, height), None, self.letters, small, spoken)
        if not text:
            return plain
        for share in LETTER_SIZES:
            size = round(self.letters * share * (1.0 if height else 1.15))
            block = wrap(text, size, width - 2 * self.pad, ALL, ALL)
            most = MAX_CAPTION * height if height else self.room - 2 * self.pad - below
            if block.height <= most:
                whole = height + block.height + 2 * self.pad + below
                return replace(plain, size=(width, whole), caption=block, letters=size)
        return None

    def _lettered(self, panel: Panel, size: tuple[int, int]) -> tuple[str, tuple[Balloon, ...]]:
        """Return the text below an image of this size, and the balloons inside it."""
        if not size[1]:
            return panel.text, ()
        if self.lettering == "none":
            return "", ()
        if self.lettering == "balloons":
            said, rest = speech(panel.text)
            found = balloons(said, size, self.letters) if said else None
            if found:
                return rest, tuple(found)
        return panel.text, ()

    def _cut(self, panel: Panel) -> _Cell:
        """Return a panel on a page of its own whose text still does not fit. The text ends in an ellipsis."""
        shape = panel.picture.size[0] / panel.picture.size[1] if panel.picture else 0.0
        height = round(min(self.inner / shape, self.room * 0.55)) if shape else 0
        width = round(height * shape) if shape else self.inner
        size = round(self.letters * LETTER_SIZES[-1])
        lines = (self.room - height - 2 * self.pad) // round(size * 1.35)
        block = wrap(panel.text, size, self.inner - 2 * self.pad, lines, ALL)
        whole = height + block.height + 2 * self.pad
        return _Cell(panel, (max(width, self.inner), whole), (width, height), block, size, None)

    def _height(self, rows: list[Row]) -> int:
        return sum(row[0].size[1] for row in rows) + self.gutter * (len(rows) - 1)

    def _page(self, group: list[Panel], rows: list[Row], height: int) -> Page:
        free = height - 2 * self.margin - self._height(rows)
        # Center the content of a nearly full page. A page with few panels starts at the top.
        top = self.margin + (free // 2 if free < height * 0.15 else 0)
        pictures: list[tuple[Picture, Box]] = []
        shapes: list[Shape] = []
        texts: list[TextBlock] = []
        for row in rows:
            widths = sum(cell.size[0] for cell in row) + self.gutter * (len(row) - 1)
            left = self.margin + (0 if self.columns else (self.inner - widths) // 2)
            for cell in row:
                if cell.panel.picture:
                    pictures.append((cell.panel.picture, self._picture_box(cell, left, top)))
                shapes += self._shapes(cell, left, top)
                texts += self._texts(cell, left, top)
                left += cell.size[0] + self.gutter
            top += row[0].size[1] + self.gutter
        name = next((panel.name for panel in group if panel.name), "")
        return Page((self.width, height), name, tuple(pictures), tuple(texts), tuple(shapes))

    def _picture_box(self, cell: _Cell, left: int, top: int) -> Box:
        begin = left + (cell.size[0] - cell.picture[0]) // 2
        return begin, top, begin + cell.picture[0], top + cell.picture[1]

    def _shapes(self, cell: _Cell, left: int, top: int) -> list[Shape]:
        """Return the caption's background, the frame of the cell, and the balloons."""
        right, bottom, below = left + cell.size[0], top + cell.size[1], top + cell.picture[1]
        shapes = []
        if below < bottom:
            shapes.append(Shape((left, below, right, bottom), cell.paper, INK, self.line))
        shapes.append(Shape((left, top, right, bottom), None, INK, self.line * 2))
        begin = self._picture_box(cell, left, top)[0]
        return [*shapes, *(outline_of(one, begin, top, self.line) for one in cell.balloons)]

    def _texts(self, cell: _Cell, left: int, top: int) -> list[TextBlock]:
        texts, y = [], top + cell.picture[1] + self.pad
        if cell.caption:
            texts.append(TextBlock(cell.caption, left + self.pad, y, cell.letters, INK, cell.paper))
            y += cell.caption.height
        if cell.mark:
            low = top + cell.size[1] - cell.mark.height - self.pad // 2
            texts.append(TextBlock(cell.mark, left + self.pad, low, self.small, SOFT, cell.paper))
        begin = self._picture_box(cell, left, top)[0]
        return [*texts, *(text_of(one, begin, top) for one in cell.balloons)]

    def _cover(self, height: int, picture: Picture | None) -> Page:
        """Return the cover: the title above the story's last image, as large as possible."""
        free = height - 2 * self.margin
        size, block = self._title(round(free * (0.3 if picture else 0.9)))
        if picture is None:
            top = (height - block.height) // 2
            return Page((self.width, height), self.comic.title, (), self._centered(block, top, size), ())
        room = free - block.height - self.gutter * 2
        scale = min(self.inner / picture.size[0], room / picture.size[1])
        shown = max(1, round(picture.size[0] * scale)), max(1, round(picture.size[1] * scale))
        top = self.margin + (room - shown[1]) // 2
        left = (self.width - shown[0]) // 2
        box = left, top + block.height + self.gutter * 2, left + shown[0], 0
        box = box[0], box[1], box[2], box[1] + shown[1]
        frame = Shape(box, None, INK, self.line * 2)
        title = self._centered(block, top, size)
        return Page((self.width, height), self.comic.title, ((picture, box),), title, (frame,))

    def _title(self, room: int) -> tuple[int, Block]:
        """Return letter height and lines of the title, as large as `room` pixels of height allow.

        A title that does not fit in the smallest size ends in an ellipsis.
        """
        for share in TITLE_SIZES:
            size = round(self.width * share)
            block = wrap(self.comic.title, size, self.inner, ALL, ALL)
            if block.height <= room:
                return size, block
        size = round(self.width * TITLE_SIZES[-1])
        return size, wrap(self.comic.title, size, self.inner, max(1, room // round(size * 1.35)))

    def _centered(self, block: Block, top: int, size: int) -> tuple[TextBlock, ...]:
        """Return the lines as separate blocks, each centered on the page."""
        texts = []
        for number, line in enumerate(block.lines):
            left = (self.width - round(block.font.getlength(line))) // 2
            one = Block((line,), block.font, block.pitch)
            texts.append(TextBlock(one, left, top + number * block.pitch, size, INK))
        return tuple(texts)


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
        words = drawable(options.words)
        steps = () if options.audience else story_steps(trajectory)
        marks = {shown.step.number: mark_of(shown, words) for shown in steps}
        comic = Comic(self.width, options.title_of(trajectory), marks)
        pages = comic_pages(panels_of(trajectory), comic, panels, lettering)
        return self.write(pages, Path(folder), trajectory, options)


def _write_archive(pages: list[Page], folder: Path, trajectory: Trajectory, options: ExportOptions) -> Path:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for number, page in enumerate(pages, start=1):
            ending, data = smaller_file(page_image(page))
            add_file(archive, f"page_{number:04}{ending}", data)
        add_file(archive, "ComicInfo.xml", _info(trajectory, pages, options))
    return write_whole(folder / FILE_NAME, buffer.getvalue())


def _write_pdf(pages: list[Page], folder: Path, trajectory: Trajectory, options: ExportOptions) -> Path:
    return write_whole(folder / PDF_NAME, pages_pdf(pages, options.title_of(trajectory)))


def _write_images(pages: list[Page], folder: Path, trajectory: Trajectory, options: ExportOptions) -> Path:
    """Write page_0001.png (the cover) and the other pages, and return the cover's path."""
    for number, page in enumerate(pages, start=1):
        buffer = io.BytesIO()
        page_image(page).save(buffer, "PNG", compress_level=6)
        write_whole(folder / PAGE_NAME.format(number=number), buffer.getvalue())
    return folder / PAGE_NAME.format(number=1)


def _info(trajectory: Trajectory, pages: list[Page], options: ExportOptions) -> bytes:
    """Return ComicInfo.xml. Its elements are in the order of schema 2.0 (anansi-project/comicinfo)."""
    audience = options.audience
    root = ElementTree.Element("ComicInfo")
    made = "Made with InterleaveThinker."
    summary = {} if audience else {"Summary": trajectory.request.text}
    for tag, text in {
        "Title": pages[0].name,
        **summary,
        "Notes": made if audience else f"{options.words.heard(summarize(trajectory).sentence)}. {made}",
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
