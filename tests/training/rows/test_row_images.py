"""Rows of untrusted data files open no images outside of their folder and the given image folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from interleave_thinker import Picture, SettingsError
from interleave_thinker.training.rows.rl import read_rl_rows
from interleave_thinker.training.rows.sft import as_prompt_completion, check_rows

INSIDE, OUTSIDE = (1, 2, 3), (200, 0, 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data" / "sub").mkdir(parents=True)
    for place, color in ((tmp_path / "data" / "a.png", INSIDE), (tmp_path / "a.png", OUTSIDE)):
        Image.new("RGB", (8, 8), color).save(place)
    (tmp_path / "data" / "link.png").symlink_to(tmp_path / "a.png")
    return tmp_path / "data"


def sft(folder: Path, name: str) -> Path:
    turns = [{"role": "user", "content": "<image> right?"}, {"role": "assistant", "content": "yes"}]
    (folder / "rows.json").write_text(json.dumps([{"messages": turns, "images": [name]}]))
    return folder / "rows.json"


def rl(folder: Path, name: str) -> Path:
    judged = {"success": True, "semantics": 9, "quality": 9}
    row = {"origin_prompt": "a boat", "edited_image_path": name, "evaluation": judged}
    (folder / "rows.jsonl").write_text(json.dumps(row) + "\n")
    return folder / "rows.jsonl"


@pytest.mark.parametrize(
    "name", ["../a.png", "sub/../../a.png", "{above}/a.png", "link.png", "/dev/zero", "a\0.png", "sub"]
)
def test_rows_cannot_name_outside_images(folder: Path, name: str) -> None:
    name = name.replace("{above}", str(folder.parent))
    with pytest.raises(SettingsError, match="row 0"):
        check_rows(sft(folder, name))
    with pytest.raises(SettingsError, match="line 1"):
        read_rl_rows(rl(folder, name))


@pytest.mark.parametrize("name", ["a.png", "sub/../a.png", "{own}/a.png"])
def test_rows_below_the_folder_are_read(folder: Path, name: str) -> None:
    name = name.replace("{own}", str(folder))
    rows, _ = check_rows(sft(folder, name))
    assert as_prompt_completion(rows[0], folder)["images"] == [str(folder / "a.png")]
    assert len(read_rl_rows(rl(folder, name))[0]) == 1


@pytest.mark.parametrize("name", ["../a.png", "{above}/a.png"])
def test_an_outside_image_is_not_mistaken_for_one_below_the_root(folder: Path, name: str) -> None:
    root = folder.parent / "root"
    root.mkdir()
    Image.new("RGB", (8, 8), INSIDE).save(root / "a.png")
    rows, _ = check_rows(sft(folder, name.replace("{above}", str(folder.parent))), images=root)
    opened = as_prompt_completion(rows[0], folder)["images"][0]
    assert Picture.open(opened).image.getpixel((0, 0)) == INSIDE
