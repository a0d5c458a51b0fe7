"""Clips in a run folder and in a story's archive: kept with the run, found again, and checked."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clips import COLORS, blend, story, with_blends
from support.journal_runs import tell

from interleave_thinker import JournalError, export_by_name, load_trajectory
from interleave_thinker.backend.core.files.video import clip_of, frames_of
from interleave_thinker.backend.story.clips import clip_pairs, clips_of
from interleave_thinker.backend.story.journal import clips
from interleave_thinker.backend.story.journal.archive import copy_run
from interleave_thinker.backend.story.journal.choices import ask_redraw
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.journal.journal import Journal

RUN = with_blends(story(*COLORS))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_trajectory(RUN, tmp_path / "run")


def test_a_run_folder_returns_its_clips(folder: Path) -> None:
    assert load_trajectory(folder) == RUN
    assert "clips" not in (folder / "trajectory.json").read_text(), "earlier versions read it"


def test_a_story_in_one_file_contains_the_clips(tmp_path: Path) -> None:
    path = export_by_name("zip", RUN, tmp_path)
    loaded = load_trajectory(path)
    assert loaded == RUN and len(list(frames_of(loaded.clips[0]))) == 5
    assert load_trajectory(copy_run(path, tmp_path / "unpacked")) == RUN


def test_a_new_clip_replaces_that_of_its_pair_and_no_other(folder: Path) -> None:
    first, second = clip_pairs(RUN)
    journal = Journal(folder)
    before = clips_of(RUN)[first.step].movie.digest
    new = clip_of(first, blend(first, frames=3), "other")
    with journal.writing():
        journal.keep_clip(new)
    found = clips_of(load_trajectory(folder))
    assert found[first.step] == new and found[second.step] == clips_of(RUN)[second.step]
    assert not (folder / "clips" / f"{before}.mp4").exists()
    # Two pairs may have the same movie: it stays as long as one of them has it.
    same = clips_of(RUN)[second.step].model_copy(update={"movie": new.movie})
    with journal.writing():
        journal.keep_clip(same)
        journal.keep_clip(clips_of(RUN)[first.step])
    assert (folder / "clips" / f"{new.movie.digest}.mp4").exists()


def test_a_deleted_movie_is_a_missing_clip_and_a_changed_one_is_an_error(folder: Path) -> None:
    first, second = sorted((folder / "clips").glob("*.mp4"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1])
    (left,) = load_trajectory(folder).clips
    with pytest.raises(JournalError, match=second.name):
        left.movie.data  # noqa: B018 - read from the disk here


@pytest.mark.parametrize("fps", ["1e-9", "NaN"])
def test_a_record_with_an_endless_clip_is_refused(folder: Path, fps: str) -> None:
    (record, _) = sorted((folder / "clips").glob("*.json"))
    text = record.read_text()
    record.write_text(text.replace('"fps": 8.0', f'"fps": {fps}'))
    with pytest.raises(JournalError, match=record.name):
        load_trajectory(folder)


@pytest.mark.parametrize("damage", ["{", '{"movie": 3}', None])
def test_a_damaged_record_is_named(folder: Path, damage: str | None) -> None:
    one, other = sorted((folder / "clips").glob("*.json"))
    one.write_text(other.read_text() if damage is None else damage)
    with pytest.raises(JournalError, match=one.name):
        load_trajectory(folder)


def test_a_movie_outside_the_folder_is_not_read(folder: Path, tmp_path: Path) -> None:
    (record, _) = sorted((folder / "clips").glob("*.json"))
    (tmp_path / "other.mp4").write_bytes(b"")
    digest = next(clip for clip in RUN.clips if clip.key == record.stem).movie.digest
    record.write_text(record.read_text().replace(digest, "../../other"))
    with pytest.raises(JournalError):
        load_trajectory(folder)


@pytest.mark.parametrize("bound", ["MAX_CLIPS", "MAX_ALL_BYTES"])
def test_the_number_of_clips_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(clips, bound, 2)
    pair = clip_pairs(RUN)[0]
    journal = Journal(folder)
    with journal.writing():
        journal.keep_clip(RUN.clips[0])
        with pytest.raises(JournalError, match="is full"):
            journal.keep_clip(clip_of(pair, blend(pair, frames=3)))
    assert load_trajectory(folder) == RUN


def test_a_run_that_resumes_has_its_clips_except_those_that_changed(tmp_path: Path) -> None:
    told = with_blends(tell(tmp_path / "run"))
    assert len(told.clips) == len(clip_pairs(told)) > 1
    journal = Journal(tmp_path / "run")
    with journal.writing():
        for clip in told.clips:
            journal.keep_clip(clip)
    assert tell(tmp_path / "run") == told
    (tmp_path / "run" / "trajectory.json").unlink()
    assert load_trajectory(tmp_path / "run").clips == told.clips
    ask_redraw(tmp_path / "run", told.results[-1].step.number, "a boat of another color")
    changed = tell(tmp_path / "run")
    assert changed.clips == told.clips[:-1] and changed.results[-1].image != told.results[-1].image
