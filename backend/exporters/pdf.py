"""A run as a PDF: a title page and a page a step, for printing and mailing.

Decision: pages are as wide as A4 and as high as the story's pictures need (layout/pages.py); a contents list
names every step. How text stays selectable without a PDF library is explained in layout/pdf_writer.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from ..report.telling import PLAIN, Telling
from ..types import Trajectory
from .layout.files import write_whole
from .layout.pages import PAPER, Page, Written, story_pages, write_text
from .layout.pdf_writer import PdfFile, references, words
from .layout.shapes import Shape

FILE_NAME = "story.pdf"
WIDTH = 2480
"""Pixels of a page's width: 300 to the inch on A4."""
POINT = 72 / 300
"""Points (1/72 inch) of a pixel."""


def export(trajectory: Trajectory, folder: Path, telling: Telling = PLAIN) -> Path:
    """Write `folder`/story.pdf and return its path. Raises JournalError, SettingsError."""
    path = Path(folder) / FILE_NAME
    write_whole(path, story_pdf(trajectory, telling))
    return path


def story_pdf(trajectory: Trajectory, telling: Telling = PLAIN) -> bytes:
    """The file's content."""
    pages = story_pages(trajectory, WIDTH, telling)
    return pages_pdf(pages, telling.title_of(trajectory))


def pages_pdf(pages: Sequence[Page], title: str) -> bytes:
    """These pages as a file's content."""
    file = PdfFile()
    tree, fonts = file.reserve(), file.reserve()
    numbers = [_page(file, page, tree, fonts) for page in pages]
    file.put(f"<< {file.fonts()} >>".encode(), fonts)
    file.put(f"<< /Type /Pages /Count {len(pages)} /Kids {references(numbers)} >>".encode(), tree)
    named = [(page.name, number) for page, number in zip(pages, numbers, strict=True) if page.name]
    outline = _outline(file, named)
    root = file.put(
        f"<< /Type /Catalog /Pages {tree} 0 R /Outlines {outline} 0 R "
        "/ViewerPreferences << /DisplayDocTitle true >> >>".encode()
    )
    info = file.put(f"<< /Title {words(title)} /Creator {words('InterleaveThinker')} >>".encode())
    return file.finish(root, info)


def _page(file: PdfFile, page: Page, tree: int, fonts: int) -> int:
    width, height = (side * POINT for side in page.size)
    red, green, blue = (round(part / 255, 4) for part in PAPER)
    drawn = [f"{red} {green} {blue} rg 0 0 {width:.2f} {height:.2f} re f"]
    images: list[int] = []
    for picture, box in page.pictures:
        images.append(file.picture(picture.image, picture.digest))
        drawn.append(_place(len(images), box, height))
    drawn += [_outline_of(shape, height) for shape in page.shapes]
    for text in page.texts:
        images.append(file.shades(_shape(text), text.paper, text.color))
        drawn.append(_place(len(images), text.box, height))
        drawn += _selectable(file, text, height)
    content = file.stream("\n".join(drawn).encode())
    named = " ".join(f"/I{number} {image} 0 R" for number, image in enumerate(images, start=1))
    return file.put(
        f"<< /Type /Page /Parent {tree} 0 R /MediaBox [0 0 {width:.2f} {height:.2f}] /Contents {content} 0 R "
        f"/Resources << /Font {fonts} 0 R /XObject << {named} >> >> >>".encode()
    )


def _place(number: int, box: tuple[int, int, int, int], height: float) -> str:
    left, top, right, bottom = (side * POINT for side in box)
    return f"q {right - left:.3f} 0 0 {bottom - top:.3f} {left:.3f} {height - bottom:.3f} cm /I{number} Do Q"


def _outline_of(shape: Shape, height: float) -> str:
    """The shape as a path (8.5)."""
    points = [f"{x * POINT:.3f} {height - y * POINT:.3f}" for x, y in shape.points()]
    path = f"{points[0]} m {' '.join(f'{point} l' for point in points[1:])} h"
    ink = " ".join(f"{part / 255:.4f}" for part in shape.color)
    fill = "" if shape.fill is None else " ".join(f"{part / 255:.4f}" for part in shape.fill) + " rg "
    return f"q {fill}{ink} RG {shape.line * POINT:.3f} w 1 j {path} {'B' if fill else 'S'} Q"


def _shape(text: Written) -> Image.Image:
    left, top, right, bottom = text.box
    image = Image.new("L", (right - left, bottom - top), 0)
    write_text(ImageDraw.Draw(image), text, 0, 0, 255)
    return image


def _selectable(file: PdfFile, text: Written, height: float) -> list[str]:
    """The lines again, invisible (rendering mode 3), each stretched to the width that it is seen at."""
    size = text.size * POINT
    drawn = []
    for number, line in enumerate(text.block.lines):
        if not line:
            continue
        width = text.block.font.getlength(line) * POINT
        stretch = 100 * width / (len(line) * size / 2)
        base = height - (text.top + number * text.block.pitch) * POINT - size
        shown = " ".join(f"/T{font} {size:.2f} Tf <{codes.hex()}> Tj" for font, codes in file.letters(line))
        drawn.append(f"BT 3 Tr {stretch:.2f} Tz 1 0 0 1 {text.left * POINT:.2f} {base:.2f} Tm {shown} ET")
    return drawn


def _outline(file: PdfFile, named: list[tuple[str, int]]) -> int:
    """The contents list, one level deep (12.3.3)."""
    top = file.reserve()
    entries = [file.reserve() for _ in named]
    for index, (name, page) in enumerate(named):
        before = f"/Prev {entries[index - 1]} 0 R" if index else ""
        after = f"/Next {entries[index + 1]} 0 R" if index + 1 < len(entries) else ""
        entry = f"<< /Title {words(name)} /Parent {top} 0 R /Dest [{page} 0 R /Fit] {before} {after} >>"
        file.put(entry.encode(), entries[index])
    ends = f"/First {entries[0]} 0 R /Last {entries[-1]} 0 R /Count {len(entries)}"
    file.put(f"<< /Type /Outlines {ends} >>".encode(), top)
    return top
