"""Jobs that need one another, run by several processes; what is done is not done again.

Decision: a job is a function and a folder; it is done when `done.json` lies there, which holds its seconds. A killed ablation
goes on where it was, and within a training where its last checkpoint is. Each job has a process of its own, so that no
training leaves memory behind for the next.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

DONE = "done.json"


@dataclass(frozen=True)
class Job:
    """Work to be done in `folder` by `work(folder, *arguments)`, after the jobs in the folders `needs`."""

    folder: Path
    work: Callable[..., None]
    arguments: tuple[Any, ...] = ()
    needs: tuple[Path, ...] = ()

    @property
    def done(self) -> bool:
        return (self.folder / DONE).exists()

    @property
    def seconds(self) -> float:
        """Wall seconds that it took, stops not counted; 0 if it is not done."""
        return json.loads((self.folder / DONE).read_text(encoding="utf-8"))["seconds"] if self.done else 0.0


def _perform(job: Job) -> None:
    import torch

    torch.set_num_threads(1)
    started = time.monotonic()
    job.folder.mkdir(parents=True, exist_ok=True)
    job.work(job.folder, *job.arguments)
    part = job.folder / f"{DONE}.part"
    part.write_text(json.dumps({"seconds": round(time.monotonic() - started, 1)}), encoding="utf-8")
    part.replace(job.folder / DONE)


def run_jobs(jobs: Sequence[Job], workers: int, log: Callable[[str], None]) -> None:
    """Do all jobs, `workers` at a time, earlier ones in the list first; raises what the first failing job raised."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    waiting = [job for job in jobs if not job.done]
    done = {job.folder for job in jobs if job.done}
    running: dict[Future[None], tuple[Job, ProcessPoolExecutor]] = {}
    try:
        while waiting or running:
            ready = [job for job in waiting if done.issuperset(job.needs)]
            for job in ready[: workers - len(running)]:
                waiting.remove(job)
                process = ProcessPoolExecutor(1, get_context("spawn"))
                running[process.submit(_perform, job)] = (job, process)
                log(f"{job.folder.parent.name}/{job.folder.name} ...")
            if not running:
                raise AssertionError("jobs that need one another in a circle")
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job, process = running.pop(future)
                future.result()
                process.shutdown()
                done.add(job.folder)
                log(f"{job.folder.parent.name}/{job.folder.name}: {job.seconds:.0f} s")
    finally:
        for _, process in running.values():
            process.shutdown(wait=False, cancel_futures=True)
