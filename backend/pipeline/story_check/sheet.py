"""The sheet that the story checker sees: all images of a story in order, with their step numbers.

It is not the contact sheet of the exports: it has no captions, and its size is limited by what the model
sees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from ...pictures import Picture

MAX_AREA = 2_097_152
"""Maximum area of a sheet in pixels; the checker's default limit of an image."""
MAX_CELL = 768
"""Maximum of an image's longer side in pixels."""
LABEL, GAP = 0.125, 0.03
"""Height of the number above an image, and space between images, as parts of the image's longer side."""
PAPER, INK = (255, 255, 255), (0, 0, 0)


def story_sheet(pages: Sequence[tuple[int, Picture]], area: int = MAX_AREA) -> Picture:
    """Return one RGB image of all pages.

    Args:
        pages: Step numbers and images, in order; at least one.
        area: Maximum area of the sheet in pixels.
    """
    width = min(1.0, max(page.size[0] / page.size[1] for _, page in pages))
    height = min(1.0, max(page.size[1] / page.size[0] for _, page in pages))
    columns = min(len(pages), math.ceil(math.sqrt(len(pages) * height / width)))
    rows = math.ceil(len(pages) / columns)
    units = columns * (width + GAP) * (rows * (height + LABEL) + GAP)
    cell = min(MAX_CELL, math.sqrt(area / units))
    label, gap = int(cell * LABEL), int(cell * GAP)
    box = max(1, int(cell * width)), max(1, int(cell * height))
    across, down = box[0] + gap, box[1] + label
    sheet = Image.new("RGB", (columns * across, rows * down + gap), PAPER)
    canvas = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(max(8, label - gap))
    for index, (number, page) in enumerate(pages):
        left, top = index % columns * across, index // columns * down
        canvas.text((left + across // 2, top), str(number), fill=INK, font=font, anchor="ma")
        shown = page.image.convert("RGB")
        scale = min(box[0] / shown.width, box[1] / shown.height)
        size = max(1, int(shown.width * scale)), max(1, int(shown.height * scale))
        shown = shown.resize(size, Image.Resampling.LANCZOS)
        sheet.paste(shown, (left + (across - shown.width) // 2, top + label))
    return Picture(sheet)
