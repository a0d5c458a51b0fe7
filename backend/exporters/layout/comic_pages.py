"""Lays out a story as comic pages: a cover, then rows of panels with captions below the images or balloons.

Images are never cropped. A storyboard has columns of equal width. Otherwise all images of a row have the same
height and together fill the page width. Among the ways to break the panels of a page into rows, the one with
the largest total image area is used. Letters have the same size on all pages and shrink only where a text
does not fit. If even the smallest size does not fit, the page gets fewer panels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ...errors import SettingsError
from ...pictures import Picture
from ...report.audience import Panel
from .balloons import Balloon, balloons, outline_of, speech, text_of
from .pages import INK, SOFT, Box, Page, TextBlock
from .panel_rows import even_rows, page_groups, row_breaks, shot_groups
from .shapes import WHITE, Color, Shape
from .typesetting import Block, wrap

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
ALL = 1_000_000
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
