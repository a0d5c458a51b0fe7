"""A story in one file: it is read back unchanged, and any other file is rejected with a clear error."""

from __future__ import annotations

import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.hostile_zips import KINDS
from support.stories import make_trajectory

from interleave_thinker.backend.core.errors import InterleaveError, JournalError
from interleave_thinker.backend.core.types import Identities, Request, RunSettings, StopReason, Trajectory
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.output.exporters import export_by_name
from interleave_thinker.backend.story.journal import archive as archives
from interleave_thinker.backend.story.journal.archive import is_story_archive, unpack_run
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import AttemptDrawn
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.replay import load_trajectory

RUN = make_trajectory(3, size=48)
MEMORY = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import conftest
from interleave_thinker.backend.errors import InterleaveError
from interleave_thinker.backend.loop.replay import load_trajectory
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
    assert load_trajectory(unpack_run(path, tmp_path / "unpacked")) == story


def test_the_archive_contains_a_page_that_is_never_unpacked(tmp_path: Path) -> None:
    path = export_by_name("zip", RUN, tmp_path)
    with zipfile.ZipFile(path) as whole:
        page = whole.read("index.html").decode()
    assert RUN.request.text in page and "data:image" in page and 'src="http' not in page, (
        "it needs no other file"
    )
    folder = unpack_run(path, tmp_path / "run")
    assert not (folder / "index.html").exists(), "a foreign page could contain scripts"


def test_the_archive_contains_the_graph(tmp_path: Path) -> None:
    path = export_by_name("zip", RUN, tmp_path, metadata={"workflow": '{"nodes": []}', "prompt": "{}"})
    with zipfile.ZipFile(path) as whole:
        assert whole.read("workflow.json") == b'{"nodes": []}'
    assert load_trajectory(path) == RUN


def test_an_archive_by_another_program_is_read(tmp_path: Path, good: bytes) -> None:
    (tmp_path / "good.zip").write_bytes(good)
    with (
        zipfile.ZipFile(tmp_path / "good.zip") as whole,
        zipfile.ZipFile(tmp_path / "again.zip", "w", zipfile.ZIP_DEFLATED) as again,
    ):
        for name in whole.namelist():
            again.writestr(name, whole.read(name))
    assert load_trajectory(tmp_path / "again.zip") == RUN


def test_a_run_resumed_from_an_archive_generates_nothing_twice(tmp_path: Path) -> None:
    generator, plan = FakeGenerator(), RUN.plan
    *_, done = run(Request(text="r"), Collaborators(None, generator), plan=plan)
    path = export_by_name("zip", done.trajectory, tmp_path)
    folder = unpack_run(path, tmp_path / "run")
    events = run(Request(text="r"), Collaborators(None, generator), journal=Journal(folder), plan=plan)
    assert [event.reused for event in events if isinstance(event, AttemptDrawn)] == [True] * 3
    before = path.read_bytes()
    with pytest.raises(JournalError, match=r"Cannot use .* as a run folder"):
        Journal(path).begin(Request(text="r"), RunSettings(), Identities())
    assert path.read_bytes() == before


def test_a_resumed_run_keeps_a_pick(tmp_path: Path) -> None:
    result = RUN.results[0]
    picked = result.model_copy(update={"chosen": 0, "stop_reason": StopReason.picked})
    story = RUN.model_copy(update={"results": (picked, *RUN.results[1:])})
    folder = unpack_run(export_by_name("zip", story, tmp_path), tmp_path / "run")
    image = result.attempts[0].image
    assert image and Journal(folder).user_selected(result.step.number) == image.digest


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_archive_gives_one_line_and_writes_nothing(tmp_path: Path, good: bytes, kind: str) -> None:
    path = tmp_path / "in" / "story.zip"
    path.parent.mkdir()
    path.write_bytes(KINDS[kind](good))
    readers: list[Callable[[], object]] = [lambda: load_trajectory(path)]
    if not kind.startswith(UNPACKS):
        readers.append(lambda: unpack_run(path, tmp_path / "in" / "run"))
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
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(Path(__file__).parents[3]), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 40_000, done.stderr


def test_an_archive_beyond_the_bounds_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        archives, "BOUNDS", archives.ZipBounds(archive=10_000, entries=9, total=9, most=lambda _: 9)
    )
    with pytest.raises(JournalError):
        export_by_name("zip", RUN, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
