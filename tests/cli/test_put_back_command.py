"""`interleave-thinker put-back`: the written image, exit codes and errors."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image
from support.cli_calls import call
from support.made_edits import difference, far_from_change, textured, tinted, with_change


def test_the_image_is_written_with_its_pixels_put_back(tmp_path: Path) -> None:
    before, after, out = tmp_path / "before.png", tmp_path / "after.png", tmp_path / "new" / "out.png"
    textured().save(before)
    tinted(with_change(textured())).save(after)
    done = call("put-back", before, after, "--out", out, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["refused"] == "" and 0.03 < found["changed"] < 0.2
    assert difference(Image.open(out).convert("RGB"), textured())[far_from_change()].max() <= 1


def test_an_edit_of_the_whole_image_is_written_as_it_is(tmp_path: Path) -> None:
    before, after, out = tmp_path / "before.png", tmp_path / "after.png", tmp_path / "out.png"
    textured().save(before)
    textured(5).save(after)
    done = call("put-back", before, after, "--out", out)
    assert done.exit_code == 3 and "Nothing was put back" in done.output
    assert difference(Image.open(out).convert("RGB"), textured(5)).max() == 0


def test_only_png_files_are_written(tmp_path: Path) -> None:
    before = tmp_path / "before.png"
    textured().save(before)
    done = call("put-back", before, before, "--out", tmp_path / "out.jpg")
    assert done.exit_code not in (0, 3) and not (tmp_path / "out.jpg").exists()
