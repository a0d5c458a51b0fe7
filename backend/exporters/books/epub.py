"""A story as an e-book: EPUB 3, with a cover and a page for each image and its text.

The reading program sets fonts, size and page breaks, so every script and every screen works. The file
contains no script and loads nothing. All text is untrusted: the templates escape it. Dates and the identifier
are fixed by the content, so the same run gives the same file.
"""

from __future__ import annotations

import io
import re
import uuid
import zipfile
from pathlib import Path
from typing import Any

from ...pictures import Picture
from ...report.export_options import PLAIN, ExportOptions
from ...shown_text import is_right_to_left, xml_text
from ...types import Trajectory
from ..layout.files import add_file, write_whole
from ..layout.page_images import scaled_image
from ..layout.pages import smaller_file
from ..page import templates_in
from ..pdf import DATE
from .parts import BookPart, all_text, book_parts

FILE_NAME = "story.epub"
HERE = Path(__file__).parent
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


def export(trajectory: Trajectory, folder: Path, options: ExportOptions = PLAIN) -> Path:
    """Write `folder`/story.epub and return its path.

    Raises:
        SettingsError: The language is unknown.
        JournalError: The folder cannot be written.
    """
    return write_whole(Path(folder) / FILE_NAME, story_epub(trajectory, options))


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
        "EPUB/book.css": (HERE / "book.css").read_text(encoding="utf-8"),
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
    return templates_in(HERE).get_template(template).render(values)
