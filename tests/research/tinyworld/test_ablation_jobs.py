"""Jobs with dependencies: run once, reported if they fail, ended with their parent."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import pytest
from support.ablation_jobs import die, fail, fill_disk, note, sleep_and_note

from interleave_thinker.backend.core.errors import SettingsError, TrainingError
from interleave_thinker.research.tinyworld.ablation import jobs as jobs_module
from interleave_thinker.research.tinyworld.ablation.jobs import LabJob, run_jobs


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jobs start as forks, which import nothing again."""
    pytest.importorskip("torch")
    monkeypatch.setattr(jobs_module, "get_context", lambda method: get_context("fork"))


@pytest.mark.usefixtures("importable")
def test_jobs_wait_for_dependencies_and_run_once(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    jobs = [LabJob(second, note, ("second",), (first,)), LabJob(first, note, ("first",))]
    said: list[str] = []
    before = dict(os.environ)
    run_jobs(jobs, 2, said.append)
    run_jobs(jobs, 2, said.append)
    assert os.environ == before, "later processes of the caller must not inherit the number of threads"
    assert (tmp_path / "order.txt").read_text().split() == ["first", "second"]
    assert all(job.done for job in jobs)


@pytest.mark.usefixtures("forks")
def test_a_failed_job_is_reported_and_not_finished(tmp_path: Path) -> None:
    jobs = [
        LabJob(tmp_path / "broken", fail),
        LabJob(tmp_path / "after", note, ("after",), (tmp_path / "broken",)),
    ]
    with pytest.raises(SettingsError, match="this job is broken") as raised:
        run_jobs(jobs, 1, lambda line: None)
    assert raised.value.hint == "mend it"
    assert not any(job.done for job in jobs)


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize(("work", "said"), [(fill_disk, "No space left"), (die, "exit code -9")])
def test_a_died_job_is_a_clear_error(tmp_path: Path, work: Callable[..., None], said: str) -> None:
    with pytest.raises(TrainingError, match=said):
        run_jobs([LabJob(tmp_path / "dying", work)], 1, lambda line: None)


@pytest.mark.usefixtures("forks")
def test_jobs_end_with_their_parent(tmp_path: Path) -> None:
    """Two trainings in one folder would damage each other."""
    folder = tmp_path / "sleeping"
    begun = get_context("fork").Process(target=run_jobs, args=([LabJob(folder, sleep_and_note)], 1, print))
    begun.start()
    while not (folder / "pid").exists() or not (folder / "pid").read_text():
        assert begun.is_alive()
        time.sleep(0.05)
    begun.kill()
    job = int((folder / "pid").read_text())
    deadline = time.monotonic() + 60
    while runs(job):
        assert time.monotonic() < deadline, "the job still runs without its parent"
        time.sleep(0.05)


def runs(process: int) -> bool:
    """Whether a process is running and not only a zombie."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
