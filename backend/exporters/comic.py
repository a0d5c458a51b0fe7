"""A story as a comic: a cover and pages of panels, as a comic archive (CBZ), PNG files or a PDF.

All three share one layout (layout/comic_pages.py). In the archive and the PNG files, text is part of the
image, since comic readers show only images. In the PDF, text can be selected. Dates in the archive are fixed,
so the same run gives the same file.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from ..report.audience import panels_of
from ..report.export_options import PLAIN, ExportOptions
from ..report.outcomes import story_steps, summarize
from ..shown_text import xml_text
from ..types import Trajectory
from .layout.comic_pages import Comic, Lettering, comic_pages
from .layout.files import add_file, write_whole
from .layout.pages import Page, mark_of, page_image, smaller_file
from .layout.typesetting import drawable
from .pdf import WIDTH as PDF_WIDTH
from .pdf import pages_pdf

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
