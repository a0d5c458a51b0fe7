"""A run folder that is damaged, foreign, in use or on a full disk: one clear error, and no data loss."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.cli_calls import python
from support.clips import story as colors
from support.clips import with_blends
from support.journal_runs import edit, tell
from support.small_agents import Counting

from interleave_thinker import JournalError, Picture, Request, waiting_for
from interleave_thinker.backend.core.types import FORMAT_VERSION, RunSettings, StepResult, StoryFinding
from interleave_thinker.backend.pipeline.story_check import StoryCheckerLike, StoryReview
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.journal.run_files import EDITED, MAX_JSON, RunFiles
from interleave_thinker.backend.story.loop.replay import load_trajectory, replay


def _other_request(folder: Path) -> None:
    edit(folder / "run.json", lambda record: record["request"].update(text="another one"))


def _newer(name: str) -> Callable[[Path], None]:
    return lambda folder: edit(folder / name, lambda record: record.update(version=FORMAT_VERSION + 1))


def _truncated(pattern: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = sorted(folder.glob(pattern))[0]
        path.write_bytes(path.read_bytes()[:-20])

    return damage


def _all(pattern: str, damage: Callable[[Path], object]) -> Callable[[Path], None]:
    return lambda folder: [damage(path) for path in folder.glob(pattern)] and None


def _repaint(path: Path) -> None:
    Picture.white((9, 9)).image.save(path)


def _swap(folder: Path) -> None:
    first, *others = sorted((folder / "attempts").iterdir())
    for other in others:
        other.write_bytes(first.read_bytes())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_other_request, "another request"),
        (_newer("run.json"), "newer version"),
        (_truncated("run.json"), "run.json"),
        (_all("attempts/*", lambda path: path.write_bytes(path.read_bytes()[:50])), "attempts"),
        (_all("verdicts/*", lambda path: path.write_bytes(b"")), "verdicts"),
        (_all("pictures/*", _repaint), "does not match its digest"),
        (_swap, "does not match its name"),
        (lambda folder: (folder / "run.json").write_text('{"version": 1, "name": "x"}'), "run.json"),
        (lambda folder: (folder / "run.json").unlink(), "does not contain a run"),
    ],
)
def test_damage_gives_one_clear_error(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    folder = tmp_path / "run"
    tell(folder)
    (folder / "trajectory.json").unlink()
    damage(folder)
    with pytest.raises(JournalError, match=message) as caught:
        tell(folder)
    assert "\n" not in str(caught.value)
    assert not (folder / "in-use.lock").exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_newer("trajectory.json"), "newer version"),
        (_truncated("trajectory.json"), "trajectory.json"),
        (
            lambda folder: edit(folder / "trajectory.json", lambda t: t["request"].update(images=["x"])),
            "request.images.0",
        ),
        (
            lambda folder: (
                edit(folder / "run.json", lambda record: record["request"].update(images=["../../secret"]))
                or (folder / "trajectory.json").unlink()
            ),
            "leads out of the run folder",
        ),
        (_all("pictures/*", lambda path: path.unlink()), "Image"),
    ],
)
def test_reading_damage_is_one_error(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    tell(tmp_path / "run")
    damage(tmp_path / "run")
    with pytest.raises(JournalError, match=message):
        load_trajectory(tmp_path / "run")


class _OneFinding(StoryCheckerLike):
    identity = "finds"

    def check(self, request: Request, pages: Sequence[StepResult]) -> tuple[StoryFinding, ...]:
        return (StoryFinding(step=pages[-1].step.number, kind="state", problem="It must be night."),)


def _believed(folder: Path) -> object:
    """Return everything that is believed of a run folder."""
    journal = Journal(folder)
    return load_trajectory(folder), journal.story_checks(), waiting_for(folder), replay(journal)


def test_a_changed_byte_in_a_record_is_an_error_or_changes_nothing(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("checked", "waits", "clips")]
    tell(folders[0], reviewer=StoryReview(_OneFinding(), 1))
    tell(folders[1], settings=RunSettings(max_attempts=2, pause="every step"))
    save_trajectory(with_blends(colors("red", "blue")), folders[2])
    noticed: set[str] = set()
    for folder in folders:
        before = _believed(folder)
        for path in sorted(folder.rglob("*.json")):
            data = path.read_bytes()
            for place in range(0, len(data), len(data) // 11) if path.name not in EDITED else ():
                path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
                try:
                    assert _believed(folder) == before, (path, place)
                except JournalError as error:
                    assert path.name in str(error)
                    noticed.add(path.name if path.parent == folder else path.parent.name)
            path.write_bytes(data)
    records = {"attempts", "verdicts", "clips"}
    assert noticed == records | {"run.json", "trajectory.json", "story_checks.json", "waiting.json"}


def test_a_record_of_an_earlier_version_has_no_checksum(tmp_path: Path) -> None:
    told = tell(tmp_path)
    for path in tmp_path.rglob("*.json"):
        edit(path, lambda record: None)
    assert "checksum" not in (tmp_path / "run.json").read_text()
    assert load_trajectory(tmp_path) == told == tell(tmp_path)


def test_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(JournalError, match="not empty"):
        tell(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(JournalError, match=r"Cannot use .* as a run folder"):
        tell(tmp_path / "thesis.txt")
    with pytest.raises(JournalError, match="does not contain a run"):
        load_trajectory(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    tell(folder)
    elsewhere.mkdir()
    (folder / "verdicts").rename(tmp_path / "moved")
    (folder / "verdicts").symlink_to(elsewhere)
    with pytest.raises(JournalError, match="leads out"):
        tell(folder)
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("part", ["..", ".", "../x", "a/b", "/etc/passwd", "", "a\x00", ".hidden"])
def test_paths_stay_inside(tmp_path: Path, part: str) -> None:
    with pytest.raises(JournalError):
        RunFiles(tmp_path).path(part)


def test_an_impossible_folder_name_raises_one_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="is not a valid folder name"):
        load_trajectory(tmp_path / "a\0b")


def test_file_larger_than_any_run_is_not_read(tmp_path: Path) -> None:
    tell(tmp_path / "run")
    with (tmp_path / "run" / "plan.json").open("r+b") as file:
        file.truncate(MAX_JSON + 1)
    with pytest.raises(JournalError, match="larger"):
        tell(tmp_path / "run")


def test_half_written_files_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    tell(folder)
    left = folder / "pictures" / f".{'a' * 40}.png.0123456789abcdef.tmp"
    left.write_bytes(b"half a picture")
    stranger = folder / "pictures" / ".notes.tmp"
    stranger.write_text("mine")
    tell(folder)
    assert not left.exists()
    assert stranger.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="file size limits are POSIX")
def test_a_full_disk_raises_one_clear_error_without_partial_files(tmp_path: Path) -> None:
    script = (
        "import resource, sys; sys.path[:0] = [sys.argv[2]]; import conftest\n"
        "from support import journal_runs as t\n"
        "from interleave_thinker.backend.core.errors import JournalError\n"
        "from pathlib import Path\n"
        "t.tell(Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1500, resource.RLIM_INFINITY))\n"
        "try: t.tell(Path(sys.argv[1]), generator=t.Counting(size=1024))\n"
        "except JournalError as error: print(error)\n"
    )
    folder = tmp_path / "run"
    done = python(script, folder, Path(__file__).parents[3])
    assert "cannot be written (File too large)" in done.stdout, done.stderr
    assert not list(folder.rglob("*.tmp"))
    assert not (folder / "in-use.lock").exists()
    generator = Counting()
    tell(folder, generator=generator)
    assert not generator.drawn
