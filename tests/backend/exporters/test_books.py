"""PDF, comic archive and moving pictures: whole, readable by others' rules, and no better than the run
was."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image, ImageChops, ImageSequence
from support.stories import make_trajectory

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.exporters import export_by_name
from interleave_thinker.backend.exporters.layout import pages as story_pages
from interleave_thinker.backend.exporters.layout import typesetting as sheet_text
from interleave_thinker.backend.exporters.pdf import story_pdf
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import Trajectory

OBJECT = re.compile(rb"(\d+) 0 obj\n(.*?)\nendobj\n", re.DOTALL)
SHOWN = re.compile(r"/T(\d+) [\d.]+ Tf <([0-9a-f]+)> Tj")
MEANING = re.compile(rb"<([0-9a-f]{2})> <([0-9a-f]+)>")
MIXED = ((512, 512), (900, 300), (200, 640), (24, 24))


class Pdf:
    """The objects of a file, by a reader of its own, and the text that can be selected on every page."""

    def __init__(self, data: bytes) -> None:
        self.objects = {int(number): content for number, content in OBJECT.findall(data)}
        table = data[int(data.rsplit(b"startxref\n", 1)[1].split()[0]) :]
        places = [int(line.split()[0]) for line in table.split(b"\n")[3 : 2 + int(table.split()[2])]]
        for number, place in enumerate(places, start=1):
            assert data[place:].startswith(b"%d 0 obj" % number)
        self.pages = [content for content in self.objects.values() if b"/Type /Page " in content]

    def stream(self, content: bytes) -> bytes:
        data = content.split(b"stream\n", 1)[1].rsplit(b"\nendstream", 1)[0]
        assert int(re.search(rb"/Length (\d+)", content)[1]) == len(data)
        return zlib.decompress(data) if b"/FlateDecode" in content else data

    def reference(self, content: bytes, key: bytes) -> bytes:
        return self.objects[int(re.search(key + rb" (\d+) 0 R", content)[1])]

    def text(self, page: bytes) -> str:
        fonts = self.reference(page, b"/Font")
        letters = {}
        for name, number in re.findall(rb"/T(\d+) (\d+) 0 R", fonts):
            codes = self.stream(self.reference(self.objects[int(number)], b"/ToUnicode"))
            for code, letter in MEANING.findall(codes.split(b"endcodespacerange")[1]):
                letters[int(name), int(code, 16)] = bytes.fromhex(letter.decode()).decode("utf-16-be")
        lines = []
        for line in self.stream(self.reference(page, b"/Contents")).decode().splitlines():
            runs = SHOWN.findall(line)
            if runs:
                assert "3 Tr" in line, "the selectable text must not be drawn over the visible one"
                lines.append(
                    "".join(letters[int(font), code] for font, run in runs for code in bytes.fromhex(run))
                )
        return "\n".join(lines)


def with_sizes(trajectory: Trajectory) -> Trajectory:
    """The run with pictures of very different shapes."""
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
    """How much fits on a page depends on the installed fonts, so a text may go on on the next one."""
    alphabet = "".join(chr(code) for code in range(0x4E00, 0x4E00 + 400)) + "äñß Ωмир שלום 🚀"
    trajectory = make_trajectory(2, decorate=f" {alphabet}")
    pdf = Pdf(story_pdf(trajectory))
    assert len(pdf.pages) >= 4
    lines = [line for page in pdf.pages for line in pdf.text(page).splitlines()]
    assert "Accepted at try 2" in lines
    # What stands at the foot of a page lies between the halves of a text.
    body = [line for line in lines if not line.isdigit() and not line.startswith("Accepted at try ")]
    whole = "".join("".join(body).split())
    for result in trajectory.results:
        written = "".join(sheet_text.wrap(result.step.auxiliary_text or "", 12, 10**6, 9).lines)
        assert "".join(written.split()) in whole


def test_a_pdf_holds_drawings_exactly_and_each_picture_once() -> None:
    flat = Picture(Image.new("RGB", (300, 200), (10, 200, 30)))
    trajectory = make_trajectory(2, text_step=False)
    results = [
        one.model_copy(
            update={"attempts": tuple(each.model_copy(update={"image": flat}) for each in one.attempts)}
        )
        for one in trajectory.results
    ]
    pdf = Pdf(story_pdf(trajectory.model_copy(update={"results": tuple(results)})))
    shown = [content for content in pdf.objects.values() if b"/ColorSpace /DeviceRGB" in content]
    assert [pdf.stream(content) for content in shown] == [flat.image.tobytes()]


@pytest.mark.parametrize("width", [600, 1240])
def test_pages_have_one_size_and_nothing_lies_over_anything(width: int) -> None:
    for trajectory in (
        make_trajectory(5, size=64, cut_short=True),
        with_sizes(make_trajectory(6)),
        make_trajectory(2, decorate=" and the wind said something long" * 60),
        make_trajectory(0),
        make_trajectory(2, decorate=" x" * 300, request="word " * 3000),
    ):
        pages = story_pages.story_pages(trajectory, width)
        assert len({page.size for page in pages}) == 1
        for page in pages:
            right, bottom = page.size
            boxes = [box for _, box in page.pictures] + [text.box for text in page.texts]
            for index, (x0, y0, x1, y1) in enumerate(boxes):
                assert x0 >= 0 and y0 >= 0 and x1 <= right and y1 <= bottom
                for u0, v0, u1, v1 in boxes[index + 1 :]:
                    assert x1 <= u0 or u1 <= x0 or y1 <= v0 or v1 <= y0


def test_a_long_text_goes_on_over_the_next_pages() -> None:
    story = " ".join(f"word{number}" for number in range(3000))
    pages = story_pages.story_pages(make_trajectory(1, text_step=False, decorate=f" {story}"), 800)
    written = " ".join(" ".join(text.block.lines) for page in pages for text in page.texts)
    assert [f"word{number}" in written for number in range(3000)] == [True] * 3000


def test_a_comic_archive_has_its_pages_in_order_and_says_so(tmp_path: Path) -> None:
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
def test_a_moving_picture_shows_every_step_or_every_try(tmp_path: Path, kind: str) -> None:
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
    tries = export_by_name(kind, trajectory, tmp_path / "tries", attempts=True)
    drawn = sum(attempt.image is not None for result in trajectory.results for attempt in result.attempts)
    assert len(frames(tries)) == drawn + 1


@pytest.mark.parametrize("kind", ["gif", "webp"])
def test_moving_pictures_of_odd_runs(tmp_path: Path, kind: str) -> None:
    assert len(frames(export_by_name(kind, with_sizes(make_trajectory(6)), tmp_path))) == 7
    assert len(frames(export_by_name(kind, make_trajectory(3, cut_short=True), tmp_path))) == 4
    largest = export_by_name(kind, make_trajectory(1, size=1500, text_step=False), tmp_path)
    assert max(frames(largest)[0].size) <= {"gif": 640, "webp": 1024}[kind] * 1.4
    for seconds in (0.0, -1.0, 61.0, float("nan")):
        with pytest.raises(SettingsError, match="seconds must be"):
            export_by_name(kind, make_trajectory(1), tmp_path, seconds=seconds)


def test_letters_that_no_font_has_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet_text, "_names", lambda: (sheet_text.OWN,))
    sheet_text._font_with.cache_clear()
    note = sheet_text.font_note(make_trajectory(1, decorate=" 从前é"))
    monkeypatch.undo()
    sheet_text._font_with.cache_clear()
    assert "从前 Install" in note and sheet_text.font_note(make_trajectory(2)) == ""
