"""A contact sheet: the complete run as one image with a card per step, for sharing and the Storyboard node.

It is drawn with Pillow and its own scalable font, so it looks the same on every machine and needs no browser.
Cards are laid out first and drawn second. If the sheet would exceed its maximum size, the cells shrink.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image, ImageDraw

from ...core.errors import SettingsError
from ...core.pictures import Picture
from ...core.types import RunSettings, Trajectory
from ...story.outcomes import (
    StoryStep,
    Tone,
    kept_word,
    outcome,
    probability_words,
    stop_sentence,
    story_steps,
    tone_of,
    tone_of_attempt,
)
from ..report.export_options import PLAIN, ExportOptions, Panel, Words, given_panels, story_panels
from .export_files import fitted, png_with, write_whole
from .typesetting import INK, PAPER, Block, Color, drawable, wrap

GOOD, OPEN, BAD, QUIET = (36, 104, 63), (176, 116, 0), (161, 44, 44), (130, 125, 117)
TONES: dict[Tone, Color] = {"good": GOOD, "open": OPEN, "bad": BAD, "quiet": QUIET}


@dataclass(frozen=True)
class Card:
    """One cell of the sheet: an image, or a text instead of it, with a caption and an outcome.

    `mark` is the outcome. It is empty in exports for an audience.
    """

    picture: Picture | None
    text: str
    caption: str
    heading: str = ""
    mark: str = ""
    tone: Color = QUIET


def panel_card(panel: Panel) -> Card:
    """Return the card of a part of the story, without an outcome."""
    return Card(panel.picture, panel.text, panel.text if panel.picture else "")


def step_card(shown: StoryStep, words: Words) -> Card:
    """Return the card of a step with its chosen image."""
    step, result = shown.step, shown.result
    picture = result.image if result else None
    story = step.auxiliary_text or step.instruction or ""
    missing = words.say("Not reached" if result is None else "No image")
    text = story if not step.prompt else f"{missing}\n\n{step.prompt}"
    mark = words.heard(stop_sentence(result)) if result else missing
    return Card(picture, text, story if picture else "", _heading(shown), mark, TONES[tone_of(result)])


def attempt_cards(shown: StoryStep, settings: RunSettings, words: Words) -> list[Card]:
    """Return one card per attempt of a step."""
    result = shown.result
    if result is None or not result.attempts:
        return [step_card(shown, words)]
    cards = []
    for index, attempt in enumerate(result.attempts):
        what = outcome(attempt, settings)
        chance = probability_words(attempt, settings)
        judged = words.heard(what.label) + (f" ({chance})" if chance else "")
        mark = ", ".join(filter(None, [judged, words.say(kept_word(result, index))]))
        text = words.say("No image") + (f"\n\n{attempt.error.message}" if attempt.error else "")
        name = words.say("attempt {number}", number=index + 1)
        heading = f"{shown.step.number}. {name}" if index else f"{_heading(shown)}: {name}"
        items = attempt.verdict.items if attempt.verdict else ()
        failed = "; ".join(item.text for item in items if item.passed is False)
        # Ticks and crosses are in few fonts, so failed items are named in words.
        before = f"{words.say('Not true: {text}', text=failed)}\n" if failed else ""
        caption, tone = before + attempt.prompt, TONES[tone_of_attempt(what)]
        cards.append(Card(attempt.image, text, caption, heading, mark, tone))
    return cards


def _heading(shown: StoryStep) -> str:
    return f"{shown.step.number}. {shown.step.name}".strip()


FILE_NAME = "sheet.png"
MAX_SIDE = 12_000
MIN_CELL, MAX_CELL = 48, 2048
CAPTION_LINES = 4
TITLE_LINES = 2
TEXT_LINES = 14
MAX_UNBROKEN = 8

CARD, CAPTION, LINE = (255, 255, 255), (106, 101, 91), (226, 220, 207)


def export(
    trajectory: Trajectory,
    folder: Path,
    options: ExportOptions = PLAIN,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """Write `folder`/sheet.png and return its path.

    Args:
        trajectory: A run, finished or not.
        folder: Folder to write into.
        options: Title, language and audience.
        metadata: Texts to embed in the file by name, such as the workflow.

    Raises:
        SettingsError: The sheet would be too large.
        JournalError: The folder cannot be written.
    """
    sheet = contact_sheet(trajectory, show="audience" if options.audience else "chosen", options=options)
    return write_whole(Path(folder) / FILE_NAME, png_with(sheet, metadata or {}))


def contact_sheet(
    trajectory: Trajectory,
    columns: int | None = None,
    cell: int = 320,
    show: Literal["chosen", "attempts", "audience"] = "chosen",
    captions: bool = True,
    options: ExportOptions = PLAIN,
) -> Image.Image:
    """Render the run as one RGB image.

    Args:
        trajectory: A run, finished or not.
        columns: Images per row. The default makes a nearly square sheet. It is also used if the given number
            would need smaller cells.
        cell: Longer side of an image in pixels, 48 to 2048. It shrinks if the sheet would be wider or higher
            than 12,000 pixels.
        show: "chosen" shows the chosen image of every step, "attempts" every attempt, "audience" only the
            story.
        captions: Whether each image has its text below it.
        options: Title above the images, and language of the sheet's own words.

    Raises:
        SettingsError: An argument is out of range, or the sheet is too large even with the smallest cells.
    """
    if not MIN_CELL <= cell <= MAX_CELL:
        raise SettingsError(f"cell must be {MIN_CELL} to {MAX_CELL} pixels, not {cell}.")
    if columns is not None and not 1 <= columns <= 100:
        raise SettingsError(f"columns must be 1 to 100, not {columns}.")
    if show not in ("chosen", "attempts", "audience"):
        raise SettingsError(f"A contact sheet cannot show {show!r}.", "Use chosen, attempts or audience.")
    words = drawable(options.words)
    if show == "audience":
        groups = [[panel_card(panel)] for panel in story_panels(trajectory, options)]
    else:
        groups = [[panel_card(panel)] for panel in given_panels(trajectory)]
        for step in story_steps(trajectory):
            chosen = show == "chosen"
            groups.append(
                [step_card(step, words)] if chosen else attempt_cards(step, trajectory.settings, words)
            )
    number = sum(map(len, groups))
    balanced = max(min(MAX_UNBROKEN, max(map(len, groups))), _near_square(number))
    layouts = [
        _Sheet(_flow(groups, tried), tried, cell, captions, options.title.strip())
        for tried in dict.fromkeys(min(number, one) for one in (columns or balanced, balanced))
    ]
    return max(layouts, key=lambda layout: layout.side).draw()


class _Sheet:
    """The dimensions of a sheet, and its rendering."""

    def __init__(self, rows: list[list[Card]], columns: int, cell: int, captions: bool, title: str) -> None:
        self._rows, self._columns, self._captions, self._name = rows, columns, captions, title
        self._marked = any(card.mark for row in rows for card in row)
        pictures = [card.picture for row in rows for card in row if card.picture]
        widest = max((p.size[0] / p.size[1] for p in pictures), default=1.0)
        tallest = max((p.size[1] / p.size[0] for p in pictures), default=1.0)
        self._shape = min(1.0, widest), min(1.0, tallest)
        self._measure(cell)
        while self._is_too_large and cell > MIN_CELL:
            cell = max(MIN_CELL, int(cell * MAX_SIDE / max(self._width, self._height) * 0.98))
            self._measure(cell)
        self.side = 0 if self._is_too_large else cell
        """Longer side of an image in pixels. 0 if the sheet is too large even with the smallest cells."""

    @property
    def _is_too_large(self) -> bool:
        return max(self._width, self._height) > MAX_SIDE

    def _measure(self, cell: int) -> None:
        self._cell = max(1, round(cell * self._shape[0])), max(1, round(cell * self._shape[1]))
        self._gap = max(4, cell // 16)
        self._bold, self._plain = max(9, cell // 18), max(8, cell // 22)
        # Reserve only the caption lines that the longest caption of the row needs.
        self._captions_of = [[self._caption(card) for card in row] for row in self._rows]
        self._row_heights = [
            self._cell[1] + max((self._caption_height(*caption) for caption in row), default=0)
            for row in self._captions_of
        ]
        self._width = self._gap + self._columns * (self._cell[0] + self._gap)
        self._title = wrap(self._name, self._bold * 3 // 2, self._width - 2 * self._gap, TITLE_LINES)
        self._top = self._gap + (self._title.height + self._gap if self._name else 0)
        self._height = self._top + sum(height + self._gap for height in self._row_heights)

    def draw(self) -> Image.Image:
        """Render the sheet.

        Raises:
            SettingsError: It would be too large.
        """
        if not self.side:
            raise SettingsError(
                f"The sheet would be {self._width}x{self._height} pixels with the smallest cells.",
                "Export the story as a page, or only a part of it as a sheet.",
            )
        sheet = Image.new("RGB", (self._width, self._height), PAPER)
        self._title.draw(ImageDraw.Draw(sheet), self._gap, self._gap, INK)
        top = self._top
        for row, captions, height in zip(self._rows, self._captions_of, self._row_heights, strict=True):
            left = self._gap
            for card, caption in zip(row, captions, strict=True):
                self._draw_card(sheet, card, left, top)
                if self._captions:
                    self._draw_caption(ImageDraw.Draw(sheet), card, caption, left, top)
                left += self._cell[0] + self._gap
            top += height + self._gap
        return sheet

    def _draw_card(self, sheet: Image.Image, card: Card, left: int, top: int) -> None:
        width, height = self._cell
        if card.picture:
            image, size = card.picture.image, fitted(card.picture.size, width, height)
            shown = image if size == image.size else image.resize(size, Image.Resampling.LANCZOS)
            sheet.paste(shown, (left + (width - size[0]) // 2, top + (height - size[1]) // 2))
            return
        canvas = ImageDraw.Draw(sheet)
        canvas.rectangle([left, top, left + width - 1, top + height - 1], fill=CARD, outline=LINE)
        inner, room = width - 2 * self._gap, height - 2 * self._gap
        size = max(9, width // 14)
        block = wrap(card.text, size, inner, TEXT_LINES)
        while block.height > room and size > 8:
            size -= 1
            block = wrap(card.text, size, inner, TEXT_LINES)
        if block.height > room:
            block = wrap(card.text, size, inner, max(1, room // block.pitch))
        block.draw(canvas, left + self._gap, top + (height - block.height) // 2, INK)

    def _draw_caption(
        self, canvas: ImageDraw.ImageDraw, card: Card, caption: tuple[Block, Block], left: int, top: int
    ) -> None:
        heading, lines = caption
        y = heading.draw(canvas, left, top + self._cell[1] + self._gap // 3, INK)
        y = lines.draw(canvas, left, y, CAPTION if card.mark else INK)
        if card.mark:
            dot, middle = self._plain // 4 * 2, y + round(self._plain * 0.6)
            canvas.ellipse([left, middle - dot // 2, left + dot, middle + dot // 2], fill=card.tone)
            mark = wrap(card.mark, self._plain, self._cell[0] - 2 * dot, 1)
            mark.draw(canvas, left + 2 * dot, y, card.tone)

    def _caption(self, card: Card) -> tuple[Block, Block]:
        width = self._cell[0]
        size, lines = (self._plain, CAPTION_LINES) if card.mark else (self._bold, TEXT_LINES)
        return wrap(card.heading, self._bold, width, 2), wrap(card.caption, size, width, lines)

    def _caption_height(self, heading: Block, lines: Block) -> int:
        mark = lines.pitch if self._marked else 0
        return heading.height + lines.height + mark + self._gap // 3 if self._captions else 0


def _flow(groups: list[list[Card]], columns: int) -> list[list[Card]]:
    """Return rows of at most `columns` cards.

    A group that does not fit into the rest of a row starts a new row.
    """
    rows: list[list[Card]] = [[]]
    for group in groups:
        if rows[-1] and len(rows[-1]) + len(group) > columns:
            rows.append([])
        for card in group:
            if len(rows[-1]) == columns:
                rows.append([])
            rows[-1].append(card)
    return rows


def _near_square(number: int) -> int:
    # Cards with captions are taller than wide, so a sheet with more columns than rows looks square.
    return number if number <= 4 else math.ceil(math.sqrt(number * 1.3))
