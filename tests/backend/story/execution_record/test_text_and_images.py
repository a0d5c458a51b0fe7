"""A folder with a text and images is read as a story: the k-th paragraph belongs to the k-th image."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from interleave_thinker.backend.core.errors import JournalError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.output.exporters import export_by_name
from interleave_thinker.backend.story.loop.replay import is_record, load_trajectory
from interleave_thinker.nodes.story.saved_runs import find_choice, load_choice, stamp, trajectory_names

COLORS = ("red", "lime", "blue")
NAMES = ("image_2.png", "image_10.png", "image_11.jpg")
"""Not in this order if they are sorted as text."""


def told(folder: Path, text: str, name: str = "story.txt") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for image, color in zip(NAMES, COLORS, strict=True):
        Image.new("RGB", (8, 8), color).save(folder / image)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["story.txt", "story_00001.txt"])
@pytest.mark.parametrize(
    ("text", "closing"),
    [
        ("A fox.\n\n\n\nIt builds.\nA raft.\n \nIt sails.", None),
        ("A fox.\r\n\r\nIt builds.\r\nA raft.\r\n\r\nIt sails.\r\n\r\nThe end.\r\n", "The end."),
        ("A fox.\n---\nIt builds.\nA raft.\n----\nIt sails.\n --- \nThe\n\nend.\n", "The\n\nend."),
    ],
)
def test_each_image_has_its_paragraph(tmp_path: Path, name: str, text: str, closing: str | None) -> None:
    folder = told(tmp_path / "fox", text, name)
    assert is_record(folder)
    trajectory = load_trajectory(folder)
    shown = [(one.step.auxiliary_text, one.image) for one in trajectory.results]
    wanted = [Picture.open(folder / image) for image in NAMES]
    assert shown[:3] == list(zip(("A fox.", "It builds.\nA raft.", "It sails."), wanted, strict=True))
    assert shown[3:] == ([(closing, None)] if closing else [])


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig"])
def test_a_text_of_another_program_is_read(
    tmp_path: Path, encoding: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = told(tmp_path / "fox", "")
    (folder / "story.txt").write_bytes("Zoë.\r\n\r\n€ 20.\r\n\r\n“Ça!”".encode(encoding))
    texts = [one.step.auxiliary_text for one in load_trajectory(folder).results]
    assert texts == ["Zoë.", "€ 20.", "“Ça!”"]
    assert ("If letters are wrong, save it as UTF-8." in caplog.text) is (encoding != "utf-8-sig")


@pytest.mark.parametrize("text", ["", "One.\n\nTwo.", "One.\n\nTwo.\n\nThree.\n\nFour.\n\nFive."])
def test_numbers_that_do_not_match_are_an_error_and_not_a_guess(tmp_path: Path, text: str) -> None:
    folder = told(tmp_path / "fox", text)
    count = len(text.split())
    with pytest.raises(JournalError, match=f"has {count} paragraphs, and 3 images are next to it") as error:
        load_trajectory(folder)
    assert "---" in str(error.value)


def test_a_text_without_images_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "story.txt").write_text("Only words.")
    with pytest.raises(JournalError, match="1 paragraphs, and 0 images"):
        load_trajectory(tmp_path)


def test_a_record_wins_over_a_text(tmp_path: Path) -> None:
    folder = told(tmp_path, "A.\n\nB.\n\nC.")
    record = [{"step": 1, "text": "The record.", "image": NAMES[0]}]
    (folder / "execution_record.json").write_text(json.dumps(record))
    (result,) = load_trajectory(folder).results
    assert result.step.auxiliary_text == "The record."


def test_an_image_that_links_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = told(tmp_path / "fox", "A.\n\nB.\n\nC.")
    Image.new("RGB", (8, 8)).save(tmp_path / "private.png")
    (folder / NAMES[1]).unlink()
    (folder / NAMES[1]).symlink_to(tmp_path / "private.png")
    with pytest.raises(JournalError):
        load_trajectory(folder)


def test_it_can_be_exported(tmp_path: Path) -> None:
    folder = told(tmp_path / "fox", "A fox.\n\nIt builds.\n\nIt sails.")
    page = export_by_name("markdown", load_trajectory(folder), tmp_path / "out").read_text(encoding="utf-8")
    assert page.index("A fox.") < page.index("It builds.") < page.index("It sails.")


def test_load_story_lists_it_and_reads_a_changed_text_again(tmp_path: Path) -> None:
    folder = told(tmp_path / "out" / "my" / "fox", "A.\n\nB.\n\nC.", "story_00001.txt")
    roots = {"output": tmp_path / "out"}
    assert trajectory_names(roots) == ["output/my/fox"]
    before = stamp(find_choice("output/my/fox", roots))
    (folder / "story_00001.txt").write_text("Another.\n\nB.\n\nC.")
    assert stamp(find_choice("output/my/fox", roots)) != before
    assert load_choice("output/my/fox", roots).results[0].step.auxiliary_text == "Another."
