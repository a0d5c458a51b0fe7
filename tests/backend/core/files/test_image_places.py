"""Lookup of the images of published files: by path, base name and end of the path, never outside."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from interleave_thinker.backend.core.errors import JournalError, SettingsError
from interleave_thinker.backend.core.files.image_places import ImagePlaces
from interleave_thinker.backend.output.exporters import record
from interleave_thinker.backend.story.execution_record.trajectory import record_trajectory

OUTSIDE = (
    "../outside.png", "images/../../outside.png", "..\\outside.png", "/etc/outside.png",
    "C:\\Windows\\outside.png", "\\\\server\\share\\outside.png", "images/./../../outside.png", "..", ".",
    "/", "",
)  # fmt: skip


def save(path: Path, color: str = "red") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), color).save(path)
    return path


def places(folder: Path, root: Path | None = None) -> ImagePlaces:
    return ImagePlaces(folder, JournalError, root, beside=("", "images"))


@pytest.mark.parametrize("written", OUTSIDE)
def test_outside_images_are_not_found(tmp_path: Path, written: str) -> None:
    save(tmp_path / "outside.png")
    (tmp_path / "run").mkdir()
    (tmp_path / "root").mkdir()
    assert places(tmp_path / "run", tmp_path / "root").find(written) is None


@pytest.mark.parametrize(
    "written",
    [
        "/data/klein/0_u/step1_0.png",
        "klein/0_u/step1_0.png",
        "../klein/0_u/step1_0.png",
        "D:\\data\\klein\\0_u\\step1_0.png",
        "\\\\server\\klein\\0_u\\step1_0.png",
        "step1_0.png",
    ],
)
@pytest.mark.parametrize("below", ["", "images"])
def test_the_base_name_is_found_next_to_the_record(tmp_path: Path, written: str, below: str) -> None:
    file = save(tmp_path / below / "step1_0.png")
    assert places(tmp_path).find(written) == file


@pytest.mark.parametrize(
    "written",
    [
        "/data/klein/0_u/step1_0.png",
        "klein/0_u/step1_0.png",
        "E:\\klein\\0_u\\step1_0.png",
        "./klein/0_u/step1_0.png",
    ],
)
@pytest.mark.parametrize("below", ["", "klein"])
def test_the_end_of_the_path_is_found_below_the_root(tmp_path: Path, written: str, below: str) -> None:
    root = tmp_path / "root"
    file = save(root / below / "0_u" / "step1_0.png")
    save(root / below / "1_u" / "step1_0.png")
    (tmp_path / "run").mkdir()
    assert places(tmp_path / "run", root).find(written) == file
    assert ImagePlaces(tmp_path / "run", SettingsError, root).find(written) == file
    assert places(tmp_path / "run").find(written) is None


def test_the_recorded_path_has_priority(tmp_path: Path) -> None:
    own = save(tmp_path / "a" / "x.png")
    save(tmp_path / "x.png")
    assert places(tmp_path).find("a/x.png") == own
    assert places(tmp_path).find(str(own)) == own
    assert places(tmp_path).find("a\\x.png") == own


def test_one_file_is_never_two_images(tmp_path: Path) -> None:
    save(tmp_path / "step1_0.png")
    found = places(tmp_path)
    assert found.find("/data/klein/0_u/step1_0.png") == found.find("0_u/step1_0.png")
    with pytest.raises(JournalError, match="both"):
        found.find("/data/klein/1_u/step1_0.png")


def test_links_that_lead_out_are_rejected_and_others_followed(tmp_path: Path) -> None:
    save(tmp_path / "outside" / "a.png")
    run = tmp_path / "run"
    save(run / "kept" / "b.png")
    (run / "file.png").symlink_to(tmp_path / "outside" / "a.png")
    (run / "images").symlink_to(tmp_path / "outside")
    (run / "inner").symlink_to(run / "kept")
    (run / "loop.png").symlink_to(run / "loop.png")
    for written in ("file.png", "images/a.png", "/data/file.png"):
        with pytest.raises(JournalError, match="link"):
            places(run).find(written)
        with pytest.raises(JournalError, match="link"):
            places(tmp_path / "empty", run).find("x/" + written)
    with pytest.raises(JournalError, match="looked up"):
        places(run).find("loop.png")
    assert places(run).find("inner/b.png") is not None


def test_invalid_image_paths_are_errors(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(JournalError, match="not a file"):
        places(tmp_path).find("pipe.png")
    with pytest.raises(JournalError, match="invalid name"):
        places(tmp_path).find("a\0b.png")
    with pytest.raises(SettingsError, match="does not exist"):
        ImagePlaces(tmp_path, SettingsError, tmp_path / "gone")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(["..", ".", "images", "a.png", "\\", "/", "~", "%2e%2e", "C:", "root", "out.png"]),
        max_size=7,
    )
)
def test_no_path_leads_out(tmp_path: Path, parts: list[str]) -> None:
    save(tmp_path / "out.png")
    save(tmp_path / "run" / "images" / "a.png")
    save(tmp_path / "run" / "root" / "images" / "a.png")
    try:
        found = places(tmp_path / "run", tmp_path / "run" / "root").find("/".join(parts))
    except JournalError:
        return
    assert found is None or (tmp_path / "run").resolve() in found.resolve().parents


def test_published_record_is_read_in_place(tmp_path: Path) -> None:
    save(tmp_path / "white.png", "white")
    save(tmp_path / "step1_0.png")
    save(tmp_path / "step2_2.png", "blue")
    rows = [
        {
            "step": 1,
            "prompt": "a",
            "source_img": "data/interleave/white.png",
            "target_img": "/d/0_u/step1_0.png",
        },
        {"step": 2, "prompt": "b", "source_img": "/d/0_u/step1_0.png", "target_img": "/d/0_u/step2_2.png"},
    ]
    rows = [{**row, "refine_prompt": "", "success": True, "reasoning": ""} for row in rows]
    (tmp_path / "execution_record.json").write_text(json.dumps({"user_input": "x", "steps": rows}))
    found = record.read_record(tmp_path)
    assert found.missing == ()
    story = record_trajectory(found)
    first, second = (result.attempts[0] for result in story.results)
    assert first.source is None and story.request.images == (), (
        "with a white source image, step 1 is generated from text"
    )
    assert second.source == first.image


@pytest.mark.parametrize("name", ["blank_page.png", "white.png"])
def test_any_white_image_before_a_published_image_is_none(tmp_path: Path, name: str) -> None:
    save(tmp_path / name, "white")
    save(tmp_path / "a.png", "white")
    rows = [
        {"step": 1, "prompt": "a", "refine_prompt": "", "source_img": name, "target_img": "a.png"},
        {"step": 2, "prompt": "b", "refine_prompt": "", "source_img": "a.png", "target_img": "a.png"},
    ]
    (tmp_path / "execution_record.json").write_text(json.dumps({"steps": rows}))
    first, second = (result.attempts[0] for result in record_trajectory(record.read_record(tmp_path)).results)
    assert first.source is None
    assert second.source == first.image, "a generated white image counts as an image"
