"""Atomic replacement of files and folders, with the peculiarities of Windows, macOS and network folders."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.cli_calls import python

from interleave_thinker.backend.core.errors import JournalError, TrainingError
from interleave_thinker.backend.core.files import atomic

BUSY = PermissionError(13, "The process cannot access the file because it is being used by another process")


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, times: int) -> list[int]:
    """Let a function of `os` fail `times` times, as on Windows while another process has the file open.

    Returns the list of failures.
    """
    real: Callable[..., object] = getattr(os, name)
    failed = [0]

    def act(*args: object, **options: object) -> object:
        if failed[0] < times:
            failed[0] += 1
            raise BUSY
        return real(*args, **options)

    monkeypatch.setattr(os, name, act)
    return failed


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(atomic.time, "sleep", found.append)
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("durable", [True, False])
def test_file_is_written_with_its_folder_and_no_leftovers(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "a" / "b.json"
    atomic.write_bytes(path, b"one", JournalError, durable=durable)
    atomic.write_text(path, "zwei\r\n\n", JournalError, durable=durable)
    assert path.read_bytes() == b"zwei\r\n\n", "line ends are the text's own on every system"
    assert names(path.parent) == ["b.json"]


def test_text_invalid_in_utf8_is_still_written(tmp_path: Path) -> None:
    atomic.write_text(tmp_path / "a", "x\ud800y", JournalError)
    assert (tmp_path / "a").read_bytes() == b"x?y"


def test_replacing_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waited: list[float]) -> None:
    (tmp_path / "a").write_bytes(b"old")
    failed = refuse(monkeypatch, "replace", 3)
    atomic.write_bytes(tmp_path / "a", b"new", JournalError)
    assert failed == [3] and waited == list(atomic.WAITS[:3])
    assert (tmp_path / "a").read_bytes() == b"new"


def test_an_open_file_is_fatal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waited: list[float]) -> None:
    (tmp_path / "a").write_bytes(b"old")
    refuse(monkeypatch, "replace", 1000)
    with pytest.raises(
        TrainingError, match=r"Report .*cannot be written \(The process cannot.*Close the program"
    ):
        atomic.write_bytes(tmp_path / "a", b"new", TrainingError, "Report")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]
    assert 0.5 < sum(waited) < 3, "brief: a node that saves does not hang"


def test_removing_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waited: list[float]) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"kept")
    os.symlink(target, tmp_path / "link")
    failed = refuse(monkeypatch, "unlink", 2)
    atomic.remove(tmp_path / "link", JournalError)
    atomic.remove(tmp_path / "never there", JournalError)
    assert names(tmp_path) == ["target"] and failed == [2] and len(waited) == 2


def test_a_link_is_replaced_and_never_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"another's")
    (tmp_path / "run").mkdir()
    os.symlink(outside, tmp_path / "run" / "plan.json")
    atomic.write_bytes(tmp_path / "run" / "plan.json", b"new", JournalError)
    assert outside.read_bytes() == b"another's"
    assert not (tmp_path / "run" / "plan.json").is_symlink()


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), RuntimeError("no"), OSError(28, "No space left")])
def test_a_stop_in_the_middle_changes_nothing(tmp_path: Path, stop: BaseException) -> None:
    (tmp_path / "a").write_bytes(b"old")
    kind = JournalError if isinstance(stop, OSError) else type(stop)
    with pytest.raises(kind), atomic.writing(tmp_path / "a", JournalError) as temporary:
        temporary.write_bytes(b"ha")
        raise stop
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"old"


def test_only_a_failed_fsync_of_a_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def only_files(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(22, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", only_files)
    atomic.write_bytes(tmp_path / "a", b"1", JournalError)

    def none(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", none)
    atomic.write_bytes(tmp_path / "b", b"1", JournalError, durable=False)
    with pytest.raises(JournalError, match="Input/output error"):
        atomic.write_bytes(tmp_path / "a", b"2", JournalError)
    assert (tmp_path / "a").read_bytes() == b"1" and names(tmp_path) == ["a", "b"]


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    old, new = tmp_path / "checkpoint", tmp_path / "checkpoint.part"
    for folder, content in ((old, "old"), (new, "new")):
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "a").write_text(content)
    yield old, new


@pytest.mark.parametrize("times", [1, 4])
def test_a_folder_with_an_open_file_is_waited_for(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, waited: list[float], times: int
) -> None:
    old, new = folders
    refuse(monkeypatch, "rename", times)
    atomic.replace_folder(new, old, TrainingError)
    assert (old / "deep" / "a").read_text() == "new" and len(waited) == times


def test_earlier_folder_is_restored_if_the_rename_fails(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, waited: list[float]
) -> None:
    old, new = folders
    real = os.rename

    def act(source: Path, target: Path) -> None:
        if Path(source) == new:
            raise BUSY
        real(source, target)

    monkeypatch.setattr(os, "rename", act)
    with pytest.raises(TrainingError, match="cannot be written"):
        atomic.replace_folder(new, old, TrainingError)
    assert (old / "deep" / "a").read_text() == "old"
    assert names(old.parent) == ["checkpoint", "checkpoint.part"]


def test_a_linked_folder_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_text("another's")
    os.symlink(tmp_path / "elsewhere", tmp_path / "run")
    with atomic.writing_folder(tmp_path / "run", JournalError) as folder:
        (folder / "b").write_text("mine")
    assert names(tmp_path) == ["elsewhere", "run"]
    assert names(tmp_path / "elsewhere") == ["a"] and names(tmp_path / "run") == ["b"]


def test_a_failed_folder_write_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), atomic.writing_folder(tmp_path / "run", JournalError) as folder:
        (folder / "b").write_text("half")
        raise RuntimeError
    assert names(tmp_path) == []


def test_leftovers_of_killed_processes_are_swept(tmp_path: Path) -> None:
    """A process is killed while it writes: the old content stays, and the next writer or sweep cleans up."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import conftest, os, signal\n"
        "from interleave_thinker.backend.core import errors\n"
        "from interleave_thinker.backend.core.files import atomic\n"
        "kill = lambda: os.kill(os.getpid(), getattr(signal, 'SIGKILL', signal.SIGTERM))\n"
        "if sys.argv[3] == 'file':\n"
        "    with atomic.writing(sys.argv[2] + '/a', errors.JournalError) as path:\n"
        "        path.write_text('half'); kill()\n"
        "with atomic.writing_folder(sys.argv[2] + '/run', errors.JournalError) as path:\n"
        "    (path / 'x').write_text('half'); kill()\n"
    )
    (tmp_path / "a").write_text("old")
    (tmp_path / ".hidden.tmp").write_text("another's")
    tests = next(folder for folder in Path(__file__).parents if (folder / "conftest.py").is_file())
    for what in ("file", "folder"):
        done = python(code, tests, tmp_path, what)
        assert done.returncode != 0 and not done.stderr, done.stderr
    assert len(names(tmp_path)) == 4 and (tmp_path / "a").read_text() == "old"
    with atomic.writing_folder(tmp_path / "run", JournalError) as folder:
        (folder / "x").write_text("whole")
    assert len(names(tmp_path)) == 4, "the half folder is gone, the half file waits for its sweep"
    atomic.sweep(tmp_path, tmp_path / "never there")
    assert names(tmp_path) == [".hidden.tmp", "a", "run"]


def test_two_writers_of_one_file_leave_one_result(tmp_path: Path) -> None:
    contents = [bytes([number]) * 20_000 for number in range(4)]

    def write(content: bytes) -> None:
        for _ in range(20):
            atomic.write_bytes(tmp_path / "a", content, JournalError, durable=False)

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert not (tmp_path / "a").exists() or (tmp_path / "a").read_bytes() in contents
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 300])
def test_names_invalid_on_every_system_are_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(JournalError, match="cannot be written"):
        atomic.write_bytes(tmp_path / name, b"", JournalError)
    with (
        pytest.raises(JournalError, match="cannot be written"),
        atomic.writing_folder(tmp_path / name, JournalError),
    ):
        pass
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["aux.png", "CON", "story.", "a:b"])
def test_names_that_windows_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(atomic, "WINDOWS", True)
    with pytest.raises(JournalError, match=r"its name .*Windows"):
        atomic.write_bytes(tmp_path / name, b"", JournalError)


def test_the_error_names_a_path_too_long_for_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "WINDOWS", True)
    deep = tmp_path.joinpath(*["folder" * 8] * 6)

    def mkdir(self: Path, *args: object, **options: object) -> None:
        raise FileNotFoundError(2, "The system cannot find the path specified")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(JournalError, match="long paths are enabled"):
        atomic.write_bytes(deep / "a.png", b"", JournalError)


def test_a_read_only_folder_raises_at_once(tmp_path: Path, waited: list[float]) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(JournalError, match="cannot be written"):
        atomic.write_bytes(tmp_path / "file" / "a", b"", JournalError)
    assert not waited


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
@pytest.mark.parametrize("mask", [0o022, 0o027, 0o002])
def test_folders_and_files_have_the_rights_that_the_umask_gives(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        with atomic.scratch_folder(tmp_path, JournalError) as made:
            (made / "file").write_text("x")
            atomic.replace_folder(made, tmp_path / "moved", JournalError)
        with atomic.writing_folder(tmp_path / "written", JournalError) as folder:
            atomic.write_bytes(folder / "deeper" / "file", b"x", JournalError)
    finally:
        os.umask(before)
    for name in ("moved", "written", "written/deeper"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o777 & ~mask, name
    assert (tmp_path / "written/deeper/file").stat().st_mode & 0o777 == 0o666 & ~mask
    assert sorted(path.name for path in tmp_path.iterdir()) == ["moved", "written"]
