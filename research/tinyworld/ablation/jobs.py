"""Jobs of the ablation in order, and how they are run in several processes.

The rows of the table are defined only here, each with its baseline and the paper's figure. Jobs are sorted by
seed, so that a stopped ablation has complete seeds. The longest chain of a seed comes first, so that two
processes finish at about the same time.

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

from ....backend.core.errors import InterleaveError, TrainingError
from ....backend.core.files.atomic import write_text
from . import measures, training
from .training import AblationSettings

DONE = "done.json"


@dataclass(frozen=True)
class LabJob:
    """A call of `work(folder, *arguments)`.

    Attributes:
        folder: Folder of the job.
        needs: Folders of jobs that must finish before.
    """

    folder: Path
    work: Callable[..., None]
    arguments: tuple[Any, ...] = ()
    needs: tuple[Path, ...] = ()

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

        torch.set_num_threads(1)
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
    """Run all jobs, `workers` at a time, in the order of the list as far as possible.

    If a job fails, the others are ended; they continue when this is called again.

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
        os.environ.update(dict.fromkeys(added, "1"))
        while waiting or running:
            ready = [job for job in waiting if done.issuperset(job.needs)]
            for job in ready[: workers - len(running)]:
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


@dataclass(frozen=True)
class TableRow:
    """A row of the table.

    Attributes:
        title: Title in the table.
        baseline: Row that it is compared with.
        published: Average in the paper's Table 5; `None` if it has no such row.
        judged_by_plan: Whether each step is judged by its own prompt from a plan, so that shares of correct
            steps can be compared.
    """

    title: str
    baseline: str | None = None
    published: float | None = None
    judged_by_plan: bool = True


ROWS = {
    "alone": TableRow("generator alone, the request's own words", None, 18.2, False),
    "untrained": TableRow("+ untrained planner and critic", "alone", 48.1),
    "planner_sft": TableRow("planner SFT, critic of rendered pages only", "untrained", 60.5),
    "one_agent": TableRow("one agent for both", "sft", 54.5),
    "unfiltered": TableRow("planner SFT, critic SFT on unfiltered data", "sft", 62.8),
    "sft": TableRow("full SFT", "planner_sft", 64.5),
    "rl_no_step": TableRow("RL without step reward", "sft", 65.2),
    "rl_no_accuracy": TableRow("RL without accuracy reward", "sft", 65.1),
    "rl": TableRow("full RL (published reward)", "sft", 66.3),
    "oracle_planner": TableRow("the story's own plan, critic of full RL", "rl"),
    "oracle_critic": TableRow("planner SFT, oracle critic", "rl"),
}
"""Rows of the table, by the name of the measurement."""
PUBLISHED_ATTEMPTS = {1: 60.2, 3: 65.3, 5: 66.3}
"""The paper's averages by attempts per step, for full RL."""
REINFORCED: dict[str, training.Remaining] = {
    "rl": "all",
    "rl_no_step": "no step reward",
    "rl_no_accuracy": "no accuracy reward",
}
MEASURED = "measured_"
"""Prefix of the folders of measuring jobs."""
ROWS_WITH_ALL_ATTEMPTS = ("sft", "rl")
"""Rows that are also run with other numbers of attempts."""


def seed_folder(out: Path, seed: int) -> Path:
    """Return the folder of a seed's jobs."""
    return out / f"seed_{seed}"


def all_jobs(out: Path, start: Path, settings: AblationSettings) -> list[LabJob]:
    """Return every job of every seed; all start from the checkpoints `base` and `novice` in `start`."""
    return [
        job for seed in settings.all_seeds for job in _of_seed(seed_folder(out, seed), start, settings, seed)
    ]


def _of_seed(folder: Path, start: Path, settings: AblationSettings, seed: int) -> Sequence[LabJob]:
    novice, asked = start / "novice", (settings, seed)
    planner, critic, agent = folder / "planner", folder / "critic", folder / "agent"
    plain, pages = folder / "critic_unfiltered", folder / "pages"
    plans, agent_plans = folder / "plans", folder / "agent_plans"
    final = training.final
    jobs = [
        LabJob(critic, training.critic, (*asked, novice, True)),
        LabJob(pages, training.pages, asked),
        LabJob(planner, training.planner, (*asked, novice)),
        LabJob(plans, measures.plan_stories, (*asked, final(planner)), (planner,)),
    ]
    for name, remaining in REINFORCED.items():
        work = (*asked, final(critic), pages, remaining)
        jobs.append(LabJob(folder / name, training.reinforced, work, (critic, pages)))
    jobs += [
        LabJob(plain, training.critic, (*asked, novice, False)),
        LabJob(agent, training.one_agent, (*asked, novice, planner, critic), (planner, critic)),
        LabJob(agent_plans, measures.plan_stories, (*asked, final(agent)), (agent,)),
    ]
    trained = {"unfiltered": plain, "sft": critic, **{name: folder / name for name in REINFORCED}}
    told: dict[str, tuple[Path | None, Path | None]] = {name: (plans, one) for name, one in trained.items()}
    told |= {"one_agent": (agent_plans, agent), "oracle_planner": (None, folder / "rl")}
    for name, (planned, judged) in told.items():
        tries = measures.ALL_ATTEMPTS if name in ROWS_WITH_ALL_ATTEMPTS else (measures.ATTEMPTS,)
        work = (*asked, planned, final(judged) if judged else None, tries)
        needs = tuple(one for one in (pages, planned, judged) if one is not None)
        jobs.append(LabJob(measured(folder, name), measures.measure_agents, work, needs))
    tries = (measures.ATTEMPTS,)
    needs = (pages, plans)
    return [
        *jobs,
        LabJob(
            measured(folder, "planner_sft"), measures.measure_agents, (*asked, plans, novice, tries), needs
        ),
        LabJob(
            measured(folder, "oracle_critic"), measures.measure_agents, (*asked, plans, None, tries), needs
        ),
        LabJob(measured(folder, "alone"), measures.measure_alone, asked),
        LabJob(measured(folder, "untrained"), measures.measure_untrained, (*asked, start / "base")),
    ]


def measured(folder: Path, name: str) -> Path:
    """Return the folder of a seed's measuring job."""
    return folder / f"{MEASURED}{name}"
