"""Stories in files: one archive, a copied folder, and those that are found again."""

from __future__ import annotations

import json
import resource
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli_calls import python
from support.hostile_zips import KINDS
from support.stories import make_trajectory

from interleave_thinker import export_by_name, load_trajectory
from interleave_thinker.backend.core.errors import InterleaveError, JournalError, SettingsError
from interleave_thinker.backend.core.types import Identities, RunSettings, StopReason, Trajectory
from interleave_thinker.backend.story.execution_record.reader import read_record
from interleave_thinker.backend.story.execution_record.trajectory import record_trajectory
from interleave_thinker.backend.story.journal import archive as archives
from interleave_thinker.backend.story.journal.archive import copy_run, is_story_archive
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.nodes.story import saved_runs as trajectory_choices

RUN = make_trajectory(3, size=48)
MEMORY = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import conftest
from interleave_thinker.backend.core.errors import InterleaveError
from interleave_thinker.backend.story.loop.replay import load_trajectory
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load_trajectory(sys.argv[2])
except InterleaveError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
UNPACKS = ("newer", "no run in it", "deep json", "json of millions", "picture")
"""Faults of the run inside a valid archive: the unpacked folder has the same fault."""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return export_by_name("zip", RUN, tmp_path_factory.mktemp("zip")).read_bytes()


@pytest.mark.parametrize(
    "story", [RUN, make_trajectory(2, request_images=2, cut_short=True), make_trajectory(0)]
)
def test_a_story_file_is_unchanged_after_reading_and_writing(tmp_path: Path, story: Trajectory) -> None:
    path = export_by_name("zip", story, tmp_path / "one")
    loaded = load_trajectory(path)
    assert loaded == story
    assert export_by_name("zip", loaded, tmp_path / "two").read_bytes() == path.read_bytes()
    assert is_story_archive(path)
    # Any program can unzip it, and has a run's folder then.
    with zipfile.ZipFile(path) as whole:
        assert whole.testzip() is None
        whole.extractall(tmp_path / "unzipped")
    assert load_trajectory(tmp_path / "unzipped") == story
    assert load_trajectory(copy_run(path, tmp_path / "unpacked")) == story


def test_the_archive_contains_a_page_that_is_never_unpacked(tmp_path: Path) -> None:
    path = export_by_name("zip", RUN, tmp_path)
    with zipfile.ZipFile(path) as whole:
        page = whole.read("index.html").decode()
    assert RUN.request.text in page and "data:image" in page and 'src="http' not in page, (
        "it needs no other file"
    )
    folder = copy_run(path, tmp_path / "run")
    assert not (folder / "index.html").exists(), "a foreign page could contain scripts"


def test_an_archive_by_another_program_is_read(tmp_path: Path, good: bytes) -> None:
    (tmp_path / "good.zip").write_bytes(good)
    with (
        zipfile.ZipFile(tmp_path / "good.zip") as whole,
        zipfile.ZipFile(tmp_path / "again.zip", "w", zipfile.ZIP_DEFLATED) as again,
    ):
        for name in whole.namelist():
            again.writestr(name, whole.read(name))
    assert load_trajectory(tmp_path / "again.zip") == RUN


def test_an_archive_is_not_written_by_a_run(tmp_path: Path, good: bytes) -> None:
    path = tmp_path / "story.zip"
    path.write_bytes(good)
    with pytest.raises(JournalError, match=r"Cannot use .* as a run folder"):
        Journal(path).begin(RUN.request, RunSettings(), Identities())
    assert path.read_bytes() == good


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_archive_gives_one_line_and_writes_nothing(tmp_path: Path, good: bytes, kind: str) -> None:
    path = tmp_path / "in" / "story.zip"
    path.parent.mkdir()
    path.write_bytes(KINDS[kind](good))
    readers: list[Callable[[], object]] = [lambda: load_trajectory(path)]
    if not kind.startswith(UNPACKS):
        readers.append(lambda: copy_run(path, tmp_path / "in" / "run"))
    for read in readers:
        with pytest.raises(InterleaveError) as caught:
            read()
        assert "\n" not in str(caught.value) and "story.zip" in str(caught.value)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [path]
    assert not (tmp_path / "in" / "run").exists()


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_AS"), reason="no limit on memory here")
@pytest.mark.parametrize("kind", ["bomb that lies", "bombs together", "picture of billions of pixels"])
def test_a_zip_bomb_does_not_use_memory(tmp_path: Path, good: bytes, kind: str) -> None:
    path = tmp_path / "story.zip"
    path.write_bytes(KINDS[kind](good))
    done = python(MEMORY, Path(__file__).parents[3], path)
    assert done.returncode == 0 and int(done.stdout) < 40_000, done.stderr


def test_an_archive_beyond_the_bounds_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        archives, "BOUNDS", archives.ZipBounds(archive=10_000, entries=9, total=9, most=lambda _: 9)
    )
    with pytest.raises(JournalError):
        export_by_name("zip", RUN, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_saving_leaves_no_partial_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_trajectory(RUN, tmp_path / "one")
    with pytest.raises(JournalError, match="exists already"):
        save_trajectory(make_trajectory(1), tmp_path / "one")
    assert load_trajectory(tmp_path / "one") == RUN
    monkeypatch.setattr(Journal, "finish", lambda *_: (_ for _ in ()).throw(JournalError("disk full")))
    with pytest.raises(JournalError, match="disk full"):
        save_trajectory(RUN, tmp_path / "two")
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_records_of_every_form_are_stories(tmp_path: Path) -> None:
    export_by_name("record", RUN, tmp_path)
    story = record_trajectory(read_record(tmp_path))
    assert story.request.text == RUN.request.text and story.plan == RUN.plan
    for found, meant in zip(story.results, RUN.results, strict=True):
        assert [one.image for one in found.attempts] == [one.image for one in meant.attempts]
        assert [one.prompt for one in found.attempts] == [one.prompt for one in meant.attempts]
        assert found.image == meant.image and found.stop_reason == meant.stop_reason
    image = next((tmp_path / "images").iterdir()).relative_to(tmp_path).as_posix()
    last = {
        "2": {"prompt": "b", "refine_prompt": "b2", "target_img": image},
        "1": {"prompt": "a", "target_img": "gone.png"},
    }
    (tmp_path / "execution_record.json").write_text(json.dumps(last))
    story = record_trajectory(read_record(tmp_path))
    assert [result.stop_reason for result in story.results] == [StopReason.error, StopReason.unjudged]
    assert story.results[1].attempts[0].prompt == "b2" and story.results[1].step.prompt == "b"
    told = [
        {"step": 1, "text": "Once", "image": image},
        {"step": 2, "text": "The end", "image": None},
        {"step": 3, "image": image},
    ]
    (tmp_path / "execution_record.json").write_text(json.dumps(told))
    story = record_trajectory(read_record(tmp_path))
    assert [result.step.auxiliary_text for result in story.results] == ["Once", "The end", "(no text)"]
    assert story.results[0].image and story.results[1].stop_reason is StopReason.text_only
    for name in ("page", "pdf", "comic", "gif", "markdown", "sheet", "record"):
        assert export_by_name(name, story, tmp_path / "out").stat().st_size > 100


def test_stories_are_found_only_by_name(tmp_path: Path) -> None:
    output, read = tmp_path / "output", tmp_path / "input"
    save_trajectory(RUN, output / "interleave-thinker" / "boat")
    export_by_name("record", RUN, read / "published")
    save_trajectory(RUN, tmp_path / "secret")
    (output / "link").symlink_to(tmp_path / "secret")
    (output / ".hidden").mkdir()
    shutil.copytree(tmp_path / "secret", output / ".hidden" / "run")
    roots = {"output": output, "input": read}
    assert sorted(trajectory_choices.trajectory_names(roots)) == [
        "input/published",
        "output/interleave-thinker/boat",
    ]
    assert trajectory_choices.load_choice("output/interleave-thinker/boat", roots) == RUN
    for name in ("output/link", "output/../secret", "output/.hidden/run", "/etc", "", "output"):
        with pytest.raises(SettingsError, match="was not found"):
            trajectory_choices.load_choice(name, roots)
    assert trajectory_choices.trajectory_names({"output": tmp_path / "none"}) == [trajectory_choices.NOTHING]
    boat = trajectory_choices.find_choice("output/interleave-thinker/boat", roots)
    before = trajectory_choices.stamp(boat)
    assert before == trajectory_choices.stamp(boat)
    (boat / "plan.json").write_text((boat / "plan.json").read_text() + " ")
    assert trajectory_choices.stamp(boat) != before
