"""execution_record.json in its three forms, and a folder with a text and images."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from support.stories import make_trajectory

from interleave_thinker import JournalError, Picture
from interleave_thinker.backend.core import pictures
from interleave_thinker.backend.output.exporters import record
from interleave_thinker.backend.story.execution_record import reader as record_reader
from interleave_thinker.backend.story.loop.replay import is_record, load_trajectory

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def write(folder: Path, data: Any) -> Path:
    path = folder / "execution_record.json"
    path.write_text(json.dumps(data))
    return path


def save_image(path: Path, color: str = "red") -> Picture:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), color).save(path)
    return Picture.open(path)


def test_a_written_record_is_read_back_completely(tmp_path: Path) -> None:
    trajectory = make_trajectory(request_images=1)
    found = record.read_record(record.export(trajectory, tmp_path))
    assert (found.form, found.user_input) == ("attempts", trajectory.request.text)
    assert found.reasoning == trajectory.plan.reasoning
    assert [(s.step_number, s.step_name, s.instruction, s.prompt, s.auxiliary_text) for s in found.plan] == [
        (s.number, s.name, s.instruction, s.prompt, s.auxiliary_text) for s in trajectory.plan.steps
    ]
    made = [(result.step, attempt) for result in trajectory.results for attempt in result.attempts]
    assert len(found.entries) == len(made)
    for entry, (step, attempt) in zip(found.entries, made, strict=True):
        assert (entry.step, entry.prompt, entry.drawn_with) == (step.number, step.prompt, attempt.prompt)
        assert entry.success == (attempt.verdict.success if attempt.verdict else None)
        assert entry.reasoning == (attempt.verdict.reasoning if attempt.verdict else "")
        assert (entry.source.open() if entry.source else None) == attempt.source
        assert (entry.target.open() if entry.target else None) == attempt.image
    assert found.missing == ()


def test_the_keys_are_exactly_the_published_ones(tmp_path: Path) -> None:
    data = json.loads(record.export(make_trajectory(), tmp_path).read_text(encoding="utf-8"))
    assert list(data) == ["user_input", "global_context", "steps", "refine_prompt_is"]
    assert list(data["global_context"]) == ["execution_plan", "reasoning"]
    keys = ["step_number", "step_name", "instruction", "prompt", "auxiliary_text"]
    assert all(list(step) == keys for step in data["global_context"]["execution_plan"])
    keys = ["step", "prompt", "refine_prompt", "source_img", "target_img", "success", "reasoning"]
    apart = [entry for entry in data["steps"] if list(entry) != keys]
    assert [list(entry) for entry in apart] == [[*keys, "drawn_with"]], "only if no earlier entry contains it"
    images = [entry[key] for entry in data["steps"] for key in ("source_img", "target_img") if entry[key]]
    assert all(re.fullmatch(r"images/[\w.]+\.png", path) and (tmp_path / path).is_file() for path in images)
    unreadable = next(entry for entry in data["steps"] if entry["reasoning"] == "I like boats.")
    assert unreadable["success"] is None, "an answer that was not understood is neither true nor false"


def test_form_b_last_attempts_only(tmp_path: Path) -> None:
    picture = save_image(tmp_path / "2.png")
    row = {"prompt": "p", "refine_prompt": "r", "source_img": "1.png", "target_img": "2.png", "extra": 1}
    found = record.read_record(write(tmp_path, {"10": row, "2": {**row, "source_img": None}}))
    assert found.form == "last" and [entry.step for entry in found.entries] == [2, 10]
    assert [(entry.drawn_with, entry.proposed) for entry in found.entries] == [("r", None), ("r", None)]
    assert found.entries[0].source is None and found.entries[0].target is not None
    assert found.entries[0].target.open() == picture
    assert found.missing == ("1.png",)
    with pytest.raises(JournalError, match="missing"):
        found.entries[1].source.open()  # type: ignore[union-attr]


def test_form_c_text_steps_are_read(tmp_path: Path) -> None:
    picture = save_image(tmp_path / "images" / "a.png")
    rows = [
        {"step": 1, "text": "Once", "image": "images\\a.png"},
        {"step": 2, "text": "The end", "image": None},
    ]
    found = record.read_record(write(tmp_path, rows))
    assert found.form == "texts" and [entry.text for entry in found.entries] == ["Once", "The end"]
    assert found.entries[0].target is not None and found.entries[0].target.open() == picture
    assert found.entries[1].target is None


@pytest.mark.parametrize(
    ("written", "read"),
    [(True, True), ("True", True), ("false", False), (None, None), ("None", None), ("", None)],
)
def test_spellings_of_a_verdict(tmp_path: Path, written: Any, read: bool | None) -> None:
    assert (
        record.read_record(write(tmp_path, {"steps": [{"step": 1, "success": written}]})).entries[0].success
        is read
    )


def test_null_is_absent_wherever_something_may_be(tmp_path: Path) -> None:
    save_image(tmp_path / "a.png")
    entry = {"step": 1, "prompt": "p", "target_img": "a.png", "success": True, "reasoning": None}
    entry |= dict.fromkeys(("beside_imgs", "refine_prompt", "source_img", "drawn_with", "text"))
    for context in (None, {"execution_plan": None, "reasoning": None}):
        data = {"user_input": None, "global_context": context, "steps": [entry]}
        (found,) = record_reader.read_record(write(tmp_path, data)).entries
        assert found.beside == () and found.target and found.target.open().size
    with pytest.raises(JournalError):
        record_reader.read_record(write(tmp_path, {"steps": [{**entry, "beside_imgs": "a.png"}]}))


@pytest.mark.parametrize("written", ["maybe", 2, 1, 0.5, [True]])
def test_no_verdict_is_guessed(tmp_path: Path, written: Any) -> None:
    with pytest.raises(JournalError, match="success"):
        record.read_record(write(tmp_path, {"steps": [{"step": 1, "success": written}]}))


def test_only_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    for path in ("images", "pipe.png"):
        with pytest.raises(JournalError, match="not a file"):
            record.read_record(write(tmp_path, [{"step": 1, "image": path}]))


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_image(tmp_path / "a.png")
    path = write(tmp_path, [{"step": 1, "image": "a.png"}])
    monkeypatch.setattr(pictures, "MAX_BYTES", 10)
    target = record.read_record(path).entries[0].target
    assert target is not None
    with pytest.raises(JournalError, match="larger than"):
        target.open()
    monkeypatch.setattr(record_reader, "MAX_RECORD_BYTES", 10)
    with pytest.raises(JournalError, match="larger than"):
        record.read_record(path)
    monkeypatch.undo()
    with pytest.raises(JournalError, match="at most"):
        record.read_record(write(tmp_path, [{"step": 1}] * 10_001))


def test_a_damaged_image_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG broken")
    target = record.read_record(write(tmp_path, [{"step": 1, "image": "a.png"}])).entries[0].target
    assert target is not None
    with pytest.raises(JournalError, match=r"a\.png"):
        target.open()


@pytest.mark.parametrize(
    "text",
    ["", "{", "3", '"text"', "{}", '{"a": {}}', "[1]", "[" * 100_000, '[{"step": 1, "step": 2}]', "null"],
)
def test_foreign_files_are_typed_errors(tmp_path: Path, text: str) -> None:
    (tmp_path / "execution_record.json").write_text(text, encoding="utf-8")
    with pytest.raises(JournalError):
        record.read_record(tmp_path)


def test_no_file_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no such file"):
        record.read_record(tmp_path)
    (tmp_path / "execution_record.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(JournalError, match="UTF-8"):
        record.read_record(tmp_path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries({"steps": json_values})
    | json_values
    | st.lists(st.fixed_dictionaries({"step": json_values, "image": json_values}))
)
def test_any_json_reads_or_is_a_typed_error(tmp_path: Path, data: Any) -> None:
    try:
        record.read_record(write(tmp_path, data))
    except JournalError as error:
        assert len(str(error)) < 5000


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
def test_another_programs_text(tmp_path: Path, encoding: str, caplog: pytest.LogCaptureFixture) -> None:
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
