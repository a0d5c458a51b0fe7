"""Runs jobs with dependencies in several processes; finished jobs are not repeated.

A job is a function and a folder. It is finished when the folder contains `done.json` with its time: processor
seconds, which other jobs hardly change, and wall-clock seconds. A stopped ablation continues at the first
unfinished job, and within a training at its last checkpoint. Each job has its own process, so that no
training leaves memory behind. Processes end with their parent in any case, because two trainings in one
folder would damage each other.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from ...backend.errors import InterleaveError, TrainingError
from ...backend.files.atomic import write_text

DONE = "done.json"


@dataclass(frozen=True)
class LabJob:
    """A call of `work(folder, *arguments)`.

    Attributes:
        folder: Folder of the job.
        needs: Folders of jobs that must finish before.
        threads: Number of threads; more than one if all other jobs wait for this one.
    """

    folder: Path
    work: Callable[..., None]
    arguments: tuple[Any, ...] = ()
    needs: tuple[Path, ...] = ()
    threads: int = 1

    @property
    def name(self) -> str:
        """Name for log lines."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def done(self) -> bool:
        """Whether the job is finished."""
        return (self.folder / DONE).exists()

    @property
    def seconds(self) -> float:
        """Processor seconds since its last start; 0 if it is not finished."""
        note = json.loads((self.folder / DONE).read_text(encoding="utf-8")) if self.done else {}
        return note.get("processor_seconds", 0.0)


def perform(job: LabJob) -> None:
    """Run a job in this process and mark it as finished. Its errors pass through."""
    started, used = time.monotonic(), time.process_time()
    job.folder.mkdir(parents=True, exist_ok=True)
    job.work(job.folder, *job.arguments)
    seconds = {"processor_seconds": time.process_time() - used, "seconds": time.monotonic() - started}
    note = json.dumps({name: round(value, 1) for name, value in seconds.items()})
    write_text(job.folder / DONE, note, TrainingError, "The job's note")


def _perform(job: LabJob, sender: Connection) -> None:
    """Run a job and send its expected error; unexpected ones end the process with a traceback."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        import torch

        torch.set_num_threads(job.threads)
        perform(job)
    except InterleaveError as error:
        sender.send(error)
    except OSError as error:
        sender.send(
            TrainingError(
                f"The job {job.name} stopped: {error}.",
                "Fix the cause, then run the same command again to continue.",
            )
        )


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def run_jobs(jobs: Sequence[LabJob], workers: int, log: Callable[[str], None]) -> None:
    """Run all jobs on `workers` threads in total, in the order of the list as far as possible.

    A job with more threads waits for the others to finish and then runs alone. If a job fails, the others are
    ended; they continue when this is called again.

    Raises:
        InterleaveError: The error of the first failing job.
        TrainingError: If the process of a job died.
    """
    added = [name for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name not in os.environ]
    context = get_context("spawn")
    waiting = [job for job in jobs if not job.done]
    done = {job.folder for job in jobs if job.done}
    running: dict[int, tuple[LabJob, Any, Connection]] = {}
    try:
        os.environ.update(dict.fromkeys(added, str(workers)))
        while waiting or running:
            ready = [job for job in waiting if done.issuperset(job.needs)]
            free = workers - sum(job.threads for job, _, _ in running.values())
            for job in ready:
                if running and job.threads > free:
                    break
                free -= job.threads
                waiting.remove(job)
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_perform, args=(job, sender), daemon=True)
                process.start()
                sender.close()
                running[process.sentinel] = (job, process, receiver)
                log(f"{job.name} ...")
            if not running:
                raise AssertionError("jobs with circular dependencies")
            for sentinel in wait(list(running)):
                assert isinstance(sentinel, int)
                job, process, receiver = running.pop(sentinel)
                process.join()
                _raise_sent_error(job, process.exitcode, receiver)
                done.add(job.folder)
                log(f"{job.name}: {job.seconds:.0f} s")
    finally:
        for name in added:
            # Later processes of the caller must not inherit them.
            del os.environ[name]
        for _, process, _ in running.values():
            process.terminate()
            process.join()


def _raise_sent_error(job: LabJob, code: int | None, receiver: Connection) -> None:
    with receiver:
        try:
            raise receiver.recv()
        except EOFError:
            pass
    if code != 0 or not job.done:
        raise TrainingError(
            f"The process of job {job.name} died with exit code {code}.",
            "Its error is shown above, or it ran out of memory. Run the same command again to continue.",
        )
