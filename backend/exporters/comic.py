"""A run as a comic archive (CBZ): the story's pages in order and a ComicInfo.xml, for comic readers.

Decision: a page is a picture with its text drawn on it, since comic readers show images and nothing else. The
archive has fixed dates, so the same run gives the same file.
"""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from xml.etree import ElementTree

from ..report.outcomes import summarize, title_of
from ..types import Trajectory
from .layout.files import write_whole
from .layout.pages import Page, page_image, smaller_file, story_pages

FILE_NAME = "story.cbz"
WIDTH = 1240
NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def export(trajectory: Trajectory, folder: Path) -> Path:
    """Write `folder`/story.cbz and return its path; raises JournalError."""
    buffer = io.BytesIO()
    pages = story_pages(trajectory, WIDTH)
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for number, page in enumerate(pages, start=1):
            ending, data = smaller_file(page_image(page))
            _add(archive, f"page_{number:04}{ending}", data)
        _add(archive, "ComicInfo.xml", _info(trajectory, pages))
    path = Path(folder) / FILE_NAME
    write_whole(path, buffer.getvalue())
    return path


def _info(trajectory: Trajectory, pages: list[Page]) -> bytes:
    """ComicInfo.xml, its elements in the order of schema 2.0 (github.com/anansi-project/comicinfo)."""
    root = ElementTree.Element("ComicInfo")
    for tag, text in (
        ("Title", title_of(trajectory)),
        ("Summary", trajectory.request.text),
        ("Notes", f"{summarize(trajectory).sentence}. Made with InterleaveThinker."),
        ("PageCount", str(len(pages))),
    ):
        ElementTree.SubElement(root, tag).text = NOT_XML.sub("", text)
    listed = ElementTree.SubElement(root, "Pages")
    for number, page in enumerate(pages):
        attributes = {"Image": str(number), "ImageWidth": str(page.size[0]), "ImageHeight": str(page.size[1])}
        if number == 0:
            attributes["Type"] = "FrontCover"
        if page.name:
            attributes["Bookmark"] = NOT_XML.sub("", page.name)
        ElementTree.SubElement(listed, "Page", attributes)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data)
