"""The guard's index finds changed copies, lets other rows pass, and contains no readable text."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.pictures import Picture

pytest.importorskip("datasketch")
pytest.importorskip("imagehash")

from interleave_thinker.training.data.decontamination.index import FRAME_ITEMS, BenchmarkIndex, optional_guard
from interleave_thinker.training.data.decontamination.items import IndexedItem

PROMPT = (
    "Show how a glass blower makes a striped vase, from the glowing gather to the cooled piece on a shelf."
)
SHORT = "Traditional boats of the Kerala backwaters, dawn"


def scene(shift: int = 0, size: int = 256) -> Picture:
    """Return an image of shapes, optionally scaled or with other colors."""
    image = Image.new("RGB", (256, 256), (240, 235, 220 - shift))
    draw = ImageDraw.Draw(image)
    draw.ellipse((30, 40, 140, 150), fill=(200, 40 + shift, 30))
    draw.rectangle((120, 130, 230, 240), fill=(20, 60, 160))
    draw.line((0, 250, 250, 10), fill=(0, 0, 0), width=9)
    return Picture(image.resize((size, size)))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    path = tmp_path / "guard.sqlite"
    with BenchmarkIndex.create(path) as guard:
        guard.add("own", [IndexedItem((PROMPT,), images=(scene(),)), IndexedItem((SHORT,))], "one")
        guard.add("comm", [IndexedItem(titles=("Lemon Cake",), ids=("comm_0007",))], "two")
    return path


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (PROMPT, "same words"),
        (PROMPT.upper().replace(",", " --"), "same words"),
        (f"For my class: {PROMPT} Use chalk.", "same words"),
        (PROMPT.replace("striped", "spotted"), "same words"),
        (f"A page about this, please: {SHORT}, in ink.", "same words"),
        (SHORT.replace("Traditional", "Wooden"), "similar text"),
        ("Lemon cake!", "same title"),
    ],
)
def test_copies_are_found(index: Path, text: str, how: str) -> None:
    with BenchmarkIndex.open(index) as guard:
        finding = guard.finding(text)
    assert finding is not None and finding.how == how


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Show how a potter makes a bowl, from the lump of clay to the fired piece.",
        "Lemon cake with my aunt",
    ],
)
def test_others_are_let_through(index: Path, text: str) -> None:
    with BenchmarkIndex.open(index) as guard:
        assert guard.finding(text, [Picture.white((64, 64))]) is None


def test_images_and_ids_are_found(index: Path) -> None:
    with BenchmarkIndex.open(index) as guard:
        for picture in (scene(), scene(shift=12), scene(size=97)):
            finding = guard.finding("", [picture])
            assert finding is not None and (finding.benchmark, finding.how) == ("own", "similar image")
        assert guard.finding("", [Picture(scene().image.rotate(90))]) is None
        found = guard.finding("another text altogether", ids=["comm_0007"])
        assert found is not None and str(found) == "comm: same id"
        assert guard.known_ids(["comm_0007", "x"], "comm") == 1


def test_the_common_frame_of_benchmark_questions_does_not_match(tmp_path: Path) -> None:
    frame = "answer the following question with several images and short texts about"
    with BenchmarkIndex.create(tmp_path / "g.sqlite") as guard:
        words = [
            "otters",
            "canals",
            "quilts",
            "tides",
            "ferns",
            "drums",
            "kilns",
            "moths",
            "bells",
            "looms",
            "yurts",
        ]
        items = [
            IndexedItem((f"{frame} {word} and what {word} mean to people in {word} towns",)) for word in words
        ]
        assert len(items) > FRAME_ITEMS
        guard.add("own", items, "one")
        other = f"{frame} the long winter road that my grandmother took over the frozen lake to market"
        assert guard.finding(other) is None
        assert guard.finding(items[0].texts[0]) is not None


def test_a_file_is_indexed_once_without_its_text(index: Path) -> None:
    with BenchmarkIndex.create(index) as guard:
        assert guard.add("own", [IndexedItem((PROMPT,))], "one") is None
        assert [source.benchmark for source in guard.sources] == ["own", "comm"]
    content = index.read_bytes().lower()
    for word in (b"glowing", b"kerala", b"lemon", b"comm_0007"):
        assert word not in content


def test_foreign_files_raise_one_sentence(tmp_path: Path, index: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        BenchmarkIndex.open(tmp_path / "none.sqlite")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(SettingsError, match="not a guard index"):
        BenchmarkIndex.open(tmp_path / "text")
    torn = tmp_path / "torn"
    torn.write_bytes(index.read_bytes()[:5000])
    with pytest.raises(SettingsError, match="Create it again"):
        BenchmarkIndex.open(torn)
    endless = sqlite3.connect(tmp_path / "view.sqlite")
    endless.executescript(
        "CREATE TABLE about (name, value); INSERT INTO about VALUES ('format', '1');"
        "CREATE VIEW sources AS WITH RECURSIVE c(x) AS "
        "(SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c;"
    )
    endless.close()
    with pytest.raises(SettingsError, match="views or triggers"):
        BenchmarkIndex.open(tmp_path / "view.sqlite")


def test_without_the_option_no_guard_is_used() -> None:
    with optional_guard(None) as guard:
        assert guard is None
