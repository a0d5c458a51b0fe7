"""Compares executors of `data filter`, `planner-rows` and `sequences` on the same runs.

    OMP_NUM_THREADS=1 python -m benchmarks.rows_side_by_side compare --runs runs/chain/runs --out runs/side
    OMP_NUM_THREADS=1 python -m benchmarks.rows_side_by_side node --runs runs/chain/runs --out runs/node

The executors are one thread, four threads, Ray through our interface, and Ray Data behind the same interface.
`compare` measures wall-clock seconds of each command, processor seconds and memory of each executor with all
its processes, and compares every file. `node` uses three Ray nodes, of which one is killed during each
command, and compares files with those of one thread.

Each executor's commands run in a separate process, so that only they are counted. The start of Ray is
reported separately. `--wait` is the sleep per score in seconds, which simulates a judge on a server. Memory
is the maximum sum of proportional set sizes, sampled once a second. The last line is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.ray_here import STORE, importable, ray_here

from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.scorers import Scorer, open_scorer
from interleave_thinker.backend.types import Score
from interleave_thinker.tinyworld.lab.data.prompts import PROMPT_SET
from interleave_thinker.training.data.executors import (
    Executor,
    ItemResult,
    LocalCancelToken,
)
from interleave_thinker.training.data.executors.ray_actors import RayExecutor
from interleave_thinker.training.data.executors.threads import ThreadExecutor
from interleave_thinker.training.data.from_runs.convert import RunConverter
from interleave_thinker.training.data.from_runs.settings import FilterData
from interleave_thinker.training.data.planner_rows.make import PlannerRows
from interleave_thinker.training.data.planner_rows.settings import PlannerRowsData
from interleave_thinker.training.data.sequences.make import make_sequences

from .threads_and_ray import Family

BATCH = 25


@dataclass(frozen=True)
class SlowScorer:
    """The exact scorer, as slow as a judge on a server."""

    seconds: float
    identity: str = "tinyworld, slowly"

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Wait, then score."""
        time.sleep(self.seconds)
        return open_scorer("tinyworld").score(before, after, instruction)

    def __call__(self) -> Scorer:
        """Return this scorer, as the opener of one."""
        return self


class JobInBatches:
    """Actor that Ray Data calls with a batch of rows."""

    def __init__(self, job: Any) -> None:
        self._function = job.open(LocalCancelToken())

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Process a batch of rows."""
        results = [self._pickle.dumps(self._function(self._pickle.loads(item))) for item in batch["item"]]
        return {"key": batch["key"], "result": results}


class RayData:
    """Ray Data with the interface of our executors."""

    def map(self, job: Any, items: Iterable[Any], key: Callable[[Any], str], stop: LocalCancelToken) -> Any:
        """Yield the results of all items."""
        import ray.data as data  # pyright: ignore[reportMissingImports]
        from ray import cloudpickle  # pyright: ignore[reportMissingImports]

        data.DataContext.get_current().enable_progress_bars = False
        rows = [{"key": key(item), "item": cloudpickle.dumps(item)} for item in items]
        blocks = data.from_items(rows).repartition(max(2, len(rows) // BATCH))
        done = blocks.map_batches(
            JobInBatches,
            fn_constructor_args=(job,),
            batch_size=BATCH,
            compute=data.ActorPoolStrategy(size=2),
            num_cpus=0.9,
        )
        for row in done.iter_rows():
            yield ItemResult(row["key"], cloudpickle.loads(row["result"]))


EXECUTORS: dict[str, Callable[[], Executor]] = {
    "one thread": lambda: ThreadExecutor(1),
    "four threads": lambda: ThreadExecutor(4),
    "Ray, our seam": lambda: RayExecutor(actors=2, parallel=2),
    "Ray Data": RayData,  # type: ignore[dict-item]
}
COMMANDS: dict[str, Callable[[Path, Path, Executor, SlowScorer], object]] = {
    "filter": lambda runs, out, work, scorer: RunConverter(
        FilterData(), PROMPT_SET, scorer, log=_silent, executor=work, open_scorer=scorer
    ).convert([runs], out),
    "planner-rows": lambda runs, out, work, scorer: PlannerRows(
        PlannerRowsData(), PROMPT_SET, log=_silent, executor=work
    ).make([runs], out),
    "sequences": lambda runs, out, work, scorer: make_sequences([runs], out, log=_silent, executor=work),
}


def _silent(line: str) -> None:
    """Do nothing: the tables of the commands would hide the result."""


def files_in(out: Path) -> dict[str, str]:
    """Return the digests of all files with rows and images."""
    found = [path for path in sorted(out.rglob("*")) if path.is_file() and "sqlite" not in path.name]
    return {path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def carried_out(options: argparse.Namespace) -> None:
    """Run all commands with one executor in this process and print their seconds as JSON."""
    out, scorer = options.out / options.one.replace(" ", "-"), SlowScorer(options.wait)
    seconds: dict[str, float] = {}
    with ExitStack() as stack:
        if "Ray" in options.one:
            began = time.monotonic()
            stack.enter_context(ray_here(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
            seconds["start of Ray"] = time.monotonic() - began
        for name, command in COMMANDS.items():
            began = time.monotonic()
            command(options.runs, out / name, EXECUTORS[options.one](), scorer)
            seconds[name] = time.monotonic() - began
    print(json.dumps({name: round(took, 1) for name, took in seconds.items()}))


class Memory:
    """Maximum sum of the proportional set sizes of a family of processes, in MB."""

    def __init__(self, family: Family) -> None:
        self._family, self._most, self._ended = family, 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def most(self) -> int:
        """Stop sampling and return the maximum."""
        self._ended.set()
        self._thread.join()
        return self._most

    def _look(self) -> None:
        while not self._ended.wait(1.0):
            self._most = max(self._most, sum(map(_megabytes, self._family.known)))


def _megabytes(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) // 1024


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Run every executor in a separate process."""
    figures: dict[str, Any] = {}
    for name in EXECUTORS:
        own = f"-m benchmarks.rows_side_by_side one --wait {options.wait} --one".split()
        own += [name, "--runs", str(options.runs), "--out", str(options.out)]
        process = subprocess.Popen([sys.executable, *own], stdout=subprocess.PIPE, text=True)
        family = Family(process.pid)
        memory = Memory(family)
        printed, _ = process.communicate()
        if process.returncode:
            sys.exit(f"{name} ended with {process.returncode}")
        took = json.loads(printed.splitlines()[-1])
        figures[name] = took | {"processor": round(family.seconds(), 1), "memory_mb": memory.most()}
        print(f"{name}: {figures[name]}", flush=True)
    first, *others = [files_in(options.out / name.replace(" ", "-")) for name in EXECUTORS]
    figures |= {"files": len(first), "equal": all(one == first for one in others)}
    return figures


def node(options: argparse.Namespace) -> dict[str, Any]:
    """Use two Ray nodes in addition to the driver's, and kill one during each command."""
    import ray  # pyright: ignore[reportMissingImports]
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as package, importable(Path(package)):
        sizes = {"object_store_memory": STORE, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **sizes})
        cluster.add_node(num_cpus=1, object_store_memory=STORE)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        try:
            for name, command in COMMANDS.items():
                doomed = cluster.add_node(num_cpus=1, object_store_memory=STORE)
                work = Watched(options.runs_before, lambda node=doomed: _kill(cluster, node))
                scorer = SlowScorer(options.wait)
                command(options.runs, options.out / "killed" / name, work, scorer)
                command(options.runs, options.out / "alone" / name, ThreadExecutor(1), scorer)
                figures[name] = {"results": work.results, "killed_after": work.killed_after}
                print(f"{name}: {figures[name]}", flush=True)
        finally:
            ray.shutdown()
            cluster.shutdown()
    alone, killed = files_in(options.out / "alone"), files_in(options.out / "killed")
    return figures | {"files": len(alone), "equal": alone == killed}


def _kill(cluster: Any, doomed: Any) -> None:
    cluster.remove_node(doomed, allow_graceful=False)


class Watched:
    """Ray through our interface, with an action after a given number of results."""

    def __init__(self, after: int, act: Callable[[], None]) -> None:
        self._after, self._act = after, act
        self.results = self.killed_after = 0

    def map(
        self, job: Any, items: Iterable[Any], key: Callable[[Any], str], stop: LocalCancelToken
    ) -> Iterator[ItemResult[Any]]:
        """Yield the results of all items."""
        for done in RayExecutor(actors=2, parallel=2).map(job, items, key, stop):
            self.results += 1
            if self.results == self._after:
                self._act()
                self.killed_after = self.results
            yield done


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["compare", "node", "one"])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="New folder.")
    parser.add_argument("--wait", type=float, default=0.05)
    parser.add_argument(
        "--runs-before", type=int, default=100, help="Number of results before the node is killed."
    )
    parser.add_argument("--one", choices=list(EXECUTORS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what == "one":
        carried_out(options)
        return
    options.out.mkdir(parents=True)
    figures = {"compare": compare, "node": node}[options.what](options)
    print(json.dumps(figures | {"wait": options.wait}))
    sys.exit(0 if figures["equal"] else 1)


if __name__ == "__main__":
    main()
