"""A folder that replaces an earlier one is never half there, whatever stops it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from interleave_thinker.training.trainer.atomic_folder import put_in_place


def folder(path: Path, text: str) -> Path:
    path.mkdir()
    for name in "abc":
        (path / name).write_text(text)
    return path


def told(path: Path) -> set[str]:
    return {file.read_text() for file in path.iterdir()}


def test_the_new_folder_replaces_the_old_one(tmp_path: Path) -> None:
    for text in ("one", "two"):
        put_in_place(folder(tmp_path / "part", text), tmp_path / "final")
        assert told(tmp_path / "final") == {text}
        assert [path.name for path in tmp_path.iterdir()] == ["final"]


def test_deleting_begins_when_the_new_folder_is_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    final = folder(tmp_path / "final", "old")
    seen: list[set[str]] = []
    remove = shutil.rmtree

    def watched(path: Path, **options: bool) -> None:
        if path.exists():
            seen.append(told(final))
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", watched)
    put_in_place(folder(tmp_path / "part", "new"), final)
    assert seen == [{"new"}]


def test_what_cannot_be_put_there_changes_nothing(tmp_path: Path) -> None:
    final = folder(tmp_path / "final", "old")
    with pytest.raises(OSError):
        put_in_place(tmp_path / "not_made", final)
    assert told(final) == {"old"} and [path.name for path in tmp_path.iterdir()] == ["final"]


def test_a_link_is_replaced_and_what_it_leads_to_is_kept(tmp_path: Path) -> None:
    elsewhere = folder(tmp_path / "elsewhere", "old")
    (tmp_path / "final").symlink_to(elsewhere)
    put_in_place(folder(tmp_path / "part", "new"), tmp_path / "final")
    assert told(tmp_path / "final") == {"new"} and told(elsewhere) == {"old"}
