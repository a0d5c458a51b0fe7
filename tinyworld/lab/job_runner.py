"""Jobs that need one another, run by several processes; what is done is not done again.

Decisions. A job is a function and a folder; it is done when `done.json` lies there, which holds its seconds:
those that the processor worked at it, which another job beside it changes little, and those of the clock.
A stopped ablation goes on where it was, and within a training where its last checkpoint is. Each job has a
process of its own, so that no training leaves memory behind for the next; processes end with the one that
began them, however that ended, because two trainings in one folder would spoil each other.
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
    """Work to be done in `folder` by `work(folder, *arguments)`, after the jobs in the folders `needs`, with
    so many threads: more than one where all other jobs wait for it."""

    folder: Path
    work: Callable[..., None]
    arguments: tuple[Any, ...] = ()
    needs: tuple[Path, ...] = ()
    threads: int = 1

    @property
    def name(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def done(self) -> bool:
        return (self.folder / DONE).exists()

    @property
    def seconds(self) -> float:
        """Seconds of a processor since it was begun for the last time; 0 if it is not done."""
        note = json.loads((self.folder / DONE).read_text(encoding="utf-8")) if self.done else {}
        return note.get("processor_seconds", 0.0)


def perform(job: LabJob) -> None:
    """Do a job in this process, and note that it is done. Raises what it raises."""
    started, used = time.monotonic(), time.process_time()
    job.folder.mkdir(parents=True, exist_ok=True)
    job.work(job.folder, *job.arguments)
    seconds = {"processor_seconds": time.process_time() - used, "seconds": time.monotonic() - started}
    note = json.dumps({name: round(value, 1) for name, value in seconds.items()})
    write_text(job.folder / DONE, note, TrainingError, "The job's note")


def _perform(job: LabJob, sender: Connection) -> None:
    """Do a job, and send what stopped it; what nobody expects ends the process with its traceback."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        import torch

        torch.set_num_threads(job.threads)
        perform(job)
    except InterleaveError as error:
        sender.send(error)
    except OSError as error:
        sender.send(
            TrainingError(f"{job.name} stopped: {error}.", "Mend that; the same command goes on from there.")
        )


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def run_jobs(jobs: Sequence[LabJob], workers: int, log: Callable[[str], None]) -> None:
    """Do all jobs, earlier ones in the list first, on `workers` threads in all; one that takes more of them
    waits for the others to end and has the machine to itself. Raises the InterleaveError that the
    first failing job raised, TrainingError if its process died; the others are ended, and go on when this is
    called again."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, str(workers))
    context = get_context("spawn")
    waiting = [job for job in jobs if not job.done]
    done = {job.folder for job in jobs if job.done}
    running: dict[int, tuple[LabJob, Any, Connection]] = {}
    try:
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
                raise AssertionError("jobs that need one another in a circle")
            for sentinel in wait(list(running)):
                assert isinstance(sentinel, int)
                job, process, receiver = running.pop(sentinel)
                process.join()
                _raise_sent_error(job, process.exitcode, receiver)
                done.add(job.folder)
                log(f"{job.name}: {job.seconds:.0f} s")
    finally:
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
            f"The process of {job.name} died (exit code {code}).",
            "It said why above, or ran out of memory. The same command goes on from there.",
        )
