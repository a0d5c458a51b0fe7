"""The lock of a run with real processes: held by living processes only; and concurrent picks."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.killed_runs import tell

from interleave_thinker import InterleaveError, JournalError, Plan, Step
from interleave_thinker.backend.story.journal import choices as journal_choices
from interleave_thinker.backend.story.journal.choices import pick, read_choices
from interleave_thinker.backend.story.journal.journal import NAME, NOTE, FolderLock

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL and fork are POSIX")

HOLDER = (
    "import sys; sys.path[:0] = [sys.argv[1]]; import conftest, os; from pathlib import Path\n"
    "from interleave_thinker.backend.story.journal.journal import FolderLock\n"
    "lock = FolderLock(Path(sys.argv[2])); lock.take()\n"
    "print('held by', os.getpid(), flush=True); sys.stdin.read()\n"
)
HERE = str(Path(__file__).parents[3])


@contextmanager
def holder(folder: Path, before: list[str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A process that has the lock until it is killed."""
    command = [*(before or []), sys.executable, "-c", HOLDER, HERE, str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and "held by" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_live_process_keeps_its_lock_and_a_killed_one_does_not(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        with pytest.raises(JournalError, match=f"Another run is using .* {process.pid} on ") as refused:
            FolderLock(tmp_path).take()
        assert "\n" not in str(refused.value)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (tmp_path / NAME).exists() and (tmp_path / NOTE).exists(), "a killed process tidies nothing up"
        lock = FolderLock(tmp_path)
        lock.take()
        lock.release()
    assert not list(tmp_path.iterdir())


def test_a_dropped_lock_does_not_block(tmp_path: Path) -> None:
    """A run that was dropped before its end, in a process that continues."""
    lock = FolderLock(tmp_path)
    lock.take()
    del lock
    FolderLock(tmp_path).take()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_without_locks_a_run_continues_with_a_warning(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import fcntl

    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    tell(tmp_path / "run")
    warned = [record.getMessage() for record in caplog.records if "without locks" in record.getMessage()]
    assert len(warned) == 1 and "Start only one run" in warned[0] and "\n" not in warned[0]
    assert not list((tmp_path / "run").glob("in-use.*"))


@pytest.mark.parametrize("name", [NAME, NOTE])
def test_a_link_in_the_locks_place_is_not_followed(tmp_path: Path, name: str) -> None:
    tell(tmp_path / "run")
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "run" / name).symlink_to(tmp_path / "mine.txt")
    with pytest.raises(JournalError, match=name):
        tell(tmp_path / "run")
    assert (tmp_path / "mine.txt").read_text() == "mine"


def forty_steps(folder: Path) -> str:
    """A run whose plan now has forty steps; returns the name of one of its images."""
    tell(folder)
    plan = Plan(steps=tuple(Step(number=number, prompt="a house") for number in range(1, 41)))
    (folder / "plan.json").write_text(plan.model_dump_json())
    return next((folder / "pictures").iterdir()).stem


def test_picks_of_other_processes_are_kept_too(tmp_path: Path) -> None:
    picture = forty_steps(tmp_path / "run")
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for step in range(1 + 10 * number, 11 + 10 * number):
                    pick(tmp_path / "run", step, picture)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    assert len(read_choices(tmp_path / "run").steps) == 40


def test_too_many_picks_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = forty_steps(tmp_path / "run")
    full = {"steps": dict.fromkeys(range(2, journal_choices.MAX_CHOICES + 2), picture)}
    (tmp_path / "run" / journal_choices.CHOICES).write_text(json.dumps(full))
    with pytest.raises(InterleaveError, match="has 1000 choices"):
        pick(tmp_path / "run", 1, picture)
    pick(tmp_path / "run", journal_choices.MAX_CHOICES, None)
    monkeypatch.setattr(journal_choices, "WAIT_SECONDS", 0.2)
    with pytest.raises(JournalError, match="is locked"), _picking(tmp_path / "run"):
        pick(tmp_path / "run", 1, picture)
    assert 1 not in read_choices(tmp_path / "run").steps


@contextmanager
def _picking(folder: Path) -> Iterator[None]:
    from interleave_thinker.backend.core.files.lock import SystemLock

    lock = SystemLock(folder / journal_choices.LOCK)
    assert lock.take()
    try:
        yield
    finally:
        lock.release()
