"""PDF, comic archive and animations: complete, readable by other programs, and showing all verdicts."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image, ImageChops, ImageSequence
from pypdf import PdfReader
from support.stories import assert_apart, make_trajectory

from interleave_thinker import Picture, SettingsError, Trajectory, export_by_name
from interleave_thinker.backend.output.exporters import pdf as story_pages
from interleave_thinker.backend.output.exporters import typesetting as sheet_text
from interleave_thinker.backend.output.exporters.pdf import DATE, Shape, pages_pdf, story_pdf

HEBREW = "שלום"
MIXED = ((512, 512), (900, 300), (200, 640), (24, 24))


def with_sizes(trajectory: Trajectory) -> Trajectory:
    """Return a run with images of very different shapes."""
    results = []
    for number, result in enumerate(trajectory.results):
        attempts = tuple(
            one.model_copy(update={"image": one.image and Picture(one.image.image.resize(MIXED[number % 4]))})
            for one in result.attempts
        )
        results.append(result.model_copy(update={"attempts": attempts}))
    return trajectory.model_copy(update={"results": tuple(results)})


def frames(path: Path) -> list[Image.Image]:
    with Image.open(path) as image:
        return [frame.convert("RGB").copy() for frame in ImageSequence.Iterator(image)]


def test_all_text_of_a_pdf_can_be_selected_in_every_script() -> None:
    """Installed fonts determine how much fits on a page, so a text may continue on the next one."""
    alphabet = "".join(chr(code) for code in range(0x4E00, 0x4E00 + 400)) + f"äñß Ωмир {HEBREW} 🚀"
    trajectory = make_trajectory(2, decorate=f" {alphabet}")
    pdf = PdfReader(io.BytesIO(story_pdf(trajectory)))
    assert len(pdf.pages) >= 4
    lines: list[str] = []
    for page in pdf.pages:
        page.extract_text(visitor_text=lambda text, *_: lines.append(text.strip()))
        shown = page.get_contents().get_data()
        assert shown.count(b" 3 Tr ") == shown.count(b" Tj ") > 0, (
            "selectable text is at the place of the visible text"
        )
    assert "Accepted at attempt 2" in lines
    # The line at the foot of a page separates the halves of a text.
    body = [line for line in lines if not line.isdigit() and not line.startswith("Accepted at attempt ")]
    whole = "".join("".join(body).split())
    for result in trajectory.results:
        written = "".join(sheet_text.wrap(result.step.auxiliary_text or "", 12, 10**6, 9).lines)
        # pypdf takes the letters as written from left to right and turns right-to-left words around.
        assert "".join(written.replace(HEBREW, HEBREW[::-1]).split()) in whole


def test_a_pdf_stores_drawings_exactly_and_each_image_once() -> None:
    flat = Picture(Image.new("RGB", (300, 200), (10, 200, 30)))
    trajectory = make_trajectory(2, text_step=False)
    results = [
        one.model_copy(
            update={"attempts": tuple(each.model_copy(update={"image": flat}) for each in one.attempts)}
        )
        for one in trajectory.results
    ]
    pdf = PdfReader(io.BytesIO(story_pdf(trajectory.model_copy(update={"results": tuple(results)}))))
    objects = [pdf.get_object(number) for number in range(1, len(pdf.xref[0]) + 1)]
    shown = [one.get_data() for one in objects if "/ColorSpace" in one and one["/ColorSpace"] == "/DeviceRGB"]
    assert shown == [flat.image.tobytes()]


def test_a_pdf_lists_its_pages_and_is_reproducible(monkeypatch: pytest.MonkeyPatch) -> None:
    trajectory = make_trajectory(2, request="Żółw & 龟 (1)")
    data = story_pdf(trajectory)
    pdf = PdfReader(io.BytesIO(data))
    assert pdf.metadata["/Title"] == story_pages.PLAIN.title_of(trajectory)
    assert pdf.trailer["/Root"]["/ViewerPreferences"]["/DisplayDocTitle"]
    named = [(one.title, pdf.get_destination_page_number(one)) for one in pdf.outline]
    pages = story_pages.story_pages(trajectory, 2480)
    assert named == [(page.name, number) for number, page in enumerate(pages) if page.name]
    assert pdf.metadata.creation_date == DATE
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert story_pdf(trajectory) == data


def test_a_pdf_of_odd_pages_is_written() -> None:
    size = (60, 40)
    block = sheet_text.Block(("a\x00\\)(b",), sheet_text.wrap("a", 12, 100, 1).font, 16)
    text = story_pages.TextBlock(block, 2, 2, (0, 0, 0))
    frame = Shape((5, 5, 50, 30), None, (9, 9, 9), 2)
    pages = [story_pages.Page(size, "", (), (), (frame,)), story_pages.Page(size, "b", (), (text,))]
    for shown in (pages[:1], pages):
        assert len(PdfReader(io.BytesIO(pages_pdf(shown, ""))).pages) == len(shown)
    assert "\\)(b" in PdfReader(io.BytesIO(pages_pdf(pages, "x"))).pages[1].extract_text()


def test_pages_have_one_size_and_nothing_overlaps() -> None:
    for trajectory in (
        make_trajectory(5, size=64, cut_short=True),
        with_sizes(make_trajectory(6)),
        make_trajectory(2, decorate=" and the wind said something long" * 60),
        make_trajectory(0),
        make_trajectory(2, decorate=" x" * 300, request="word " * 3000),
    ):
        pages = story_pages.story_pages(trajectory, 600)
        assert len({page.size for page in pages}) == 1
        for page in pages:
            boxes = [box for _, box in page.pictures]
            assert_apart(page.size, boxes + [text.box for text in page.texts if text.block.lines])


def test_long_text_continues_on_the_next_pages() -> None:
    story = " ".join(f"word{number}" for number in range(3000))
    pages = story_pages.story_pages(make_trajectory(1, text_step=False, decorate=f" {story}"), 800)
    written = " ".join(" ".join(text.block.lines) for page in pages for text in page.texts)
    assert [f"word{number}" in written for number in range(3000)] == [True] * 3000


def test_a_comic_archive_lists_its_pages_in_order(tmp_path: Path) -> None:
    trajectory = make_trajectory(12, decorate="\x0b<&>")
    with zipfile.ZipFile(export_by_name("comic", trajectory, tmp_path)) as archive:
        names = archive.namelist()
        info = ElementTree.fromstring(archive.read("ComicInfo.xml"))
        sizes = [Image.open(io.BytesIO(archive.read(name))).size for name in names[:-1]]
    assert names == [*sorted(names[:-1]), "ComicInfo.xml"] and len(names) == 5
    assert info.findtext("PageCount") == "4" and len(set(sizes)) == 1
    listed = info.findall("Pages/Page")
    assert [page.get("Image") for page in listed] == [str(number) for number in range(4)]
    assert listed[0].get("Type") == "FrontCover" and listed[1].get("Bookmark") == "The harbour at dawn<&>"
    assert info.findtext("Summary", "").endswith("<&>")


@pytest.mark.parametrize("kind", ["gif", "webp"])
def test_animation_shows_every_step_or_every_attempt(tmp_path: Path, kind: str) -> None:
    trajectory = make_trajectory(4, size=300)
    path = export_by_name(kind, trajectory, tmp_path / "kept", seconds=1.5)
    with Image.open(path) as image:
        assert image.n_frames == 5 and image.info["loop"] == 0
        image.seek(1)
        image.load()
        assert image.info["duration"] == 1500
    for frame, result in zip(frames(path), trajectory.results[:4], strict=False):
        assert result.image is not None
        off = ImageChops.difference(frame.crop((0, 0, 300, 300)), result.image.image)
        assert sum(value * count for value, count in enumerate(off.convert("L").histogram())) / 90_000 < 4
    attempts = export_by_name(kind, trajectory, tmp_path / "attempts", attempts=True)
    drawn = sum(attempt.image is not None for result in trajectory.results for attempt in result.attempts)
    assert len(frames(attempts)) == drawn + 1


@pytest.mark.parametrize("kind", ["gif", "webp"])
def test_animations_of_unusual_runs_are_valid(tmp_path: Path, kind: str) -> None:
    assert len(frames(export_by_name(kind, with_sizes(make_trajectory(6)), tmp_path))) == 7
    assert len(frames(export_by_name(kind, make_trajectory(3, cut_short=True), tmp_path))) == 4
    largest = export_by_name(kind, make_trajectory(1, size=1500, text_step=False), tmp_path)
    assert max(frames(largest)[0].size) <= {"gif": 640, "webp": 1024}[kind] * 1.4
    for seconds in (0.0, -1.0, 61.0, float("nan")):
        with pytest.raises(SettingsError, match="seconds must be"):
            export_by_name(kind, make_trajectory(1), tmp_path, seconds=seconds)


def test_letters_without_a_font_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet_text, "_names", lambda: (sheet_text.OWN,))
    sheet_text._font_with.cache_clear()
    note = sheet_text.font_note(make_trajectory(1, decorate=" 从前é"))
    monkeypatch.undo()
    sheet_text._font_with.cache_clear()
    assert "从前 Install" in note and sheet_text.font_note(make_trajectory(2)) == ""
