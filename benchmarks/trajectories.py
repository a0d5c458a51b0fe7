"""Trajectories of many prompts, disturbed: killed at random moments and resumed, by threads and by Ray, with
a Ray node killed in the middle.

Decision: whatever happened, the records in the end are held byte for byte against those of an undisturbed
run, and no draw that was recorded before a kill may be drawn after it.

    OMP_NUM_THREADS=1 python benchmarks/trajectories.py kills --prompts 40 --kills 20
    OMP_NUM_THREADS=1 python benchmarks/trajectories.py kills --teachers tinyworld --prompts 12 --kills 20
    OMP_NUM_THREADS=1 python benchmarks/trajectories.py ray --prompts 400
    OMP_NUM_THREADS=1 python benchmarks/trajectories.py node --prompts 60

The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import conftest  # noqa: F401 - makes the package importable
from support.ray_here import STORE, importable, ray_here
from support.small_teachers import SmallTeachers, records, write_prompts

from interleave_thinker.backend.agents.critic import Critic
from interleave_thinker.backend.agents.planner import Planner
from interleave_thinker.backend.chat import open_chat
from interleave_thinker.backend.generators import open_generator
from interleave_thinker.tinyworld.lab.data.prompt_rows import make_prompts
from interleave_thinker.training.data.executors import Executor
from interleave_thinker.training.data.executors.ray_actors import RayExecutor
from interleave_thinker.training.data.executors.threads import ThreadExecutor
from interleave_thinker.training.data.trajectories.engine import PromptFile, Trajectories, TrajectoriesReport
from interleave_thinker.training.data.trajectories.options import TrajectoryOptions
from interleave_thinker.training.data.trajectories.unit import Teachers
from interleave_thinker.training.data.trajectories.usage import read_ledger


@dataclass(frozen=True)
class TinyWorld:
    """The demo's models."""

    def __call__(self) -> Teachers:
        return Teachers(
            planner=("tinyworld", Planner(open_chat("tinyworld:planner"))),
            critic=("tinyworld", Critic(open_chat("tinyworld:critic"))),
            generators=(("tinyworld", open_generator("tinyworld")),),
        )


def make(prompts: Path, out: Path, teachers: Callable[[], Teachers], work: Executor) -> TrajectoriesReport:
    engine = Trajectories(out, teachers, TrajectoryOptions(), work, log=lambda line: None)
    return engine.make(PromptFile(prompts))


def prompts_in(place: Path, options: argparse.Namespace) -> Path:
    if options.teachers == "tinyworld":
        return make_prompts(place / "prompts", options.prompts, 0)
    return write_prompts(place / "prompts.jsonl", options.prompts)


def draws_of(out: Path) -> tuple[int, int]:
    """Draws that the ledgers note, and draws that have a record."""
    noted = [usage for path in out.glob("*/ledger.jsonl") for usage in read_ledger(path)]
    made = sum(usage.calls for usage in noted if usage.role == "generator")
    return made, len(list(out.glob("*/attempts/*.json")))


def kills(place: Path, options: argparse.Namespace) -> dict[str, object]:
    prompts = prompts_in(place, options)
    teachers: Callable[[], Teachers] = SmallTeachers(seconds=0.02)
    if options.teachers == "tinyworld":
        opened = TinyWorld()()
        teachers = lambda: opened  # noqa: E731 - loaded once, before the forks
    began = time.monotonic()
    make(prompts, place / "alone", teachers, ThreadExecutor(2))
    longest = (time.monotonic() - began) / options.kills * 1.5
    dice, killed, out = random.Random(options.seed), 0, place / "killed"
    while killed < options.kills:
        child = os.fork()
        if child == 0:
            try:
                make(prompts, out, teachers, ThreadExecutor(2))
            finally:
                os._exit(0)
        time.sleep(dice.uniform(0.0, longest))
        os.kill(child, signal.SIGKILL)
        killed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        if killed < options.kills and not any(True for _ in todo(prompts, out)):
            break
        print(f"kill {killed}: {len(list(out.glob('*/execution_record.json')))} whole", flush=True)
    make(prompts, out, teachers, ThreadExecutor(2))
    made, recorded = draws_of(out)
    assert made == recorded, f"{made - recorded} draws were made again"
    assert records(place / "alone") == records(out), "records differ"
    return {"kills": killed, "draws": made, "drawn_again": made - recorded, "files": len(records(out))}


def todo(prompts: Path, out: Path) -> list[str]:
    rows = [json.loads(line)["id"] for line in prompts.read_text().splitlines()]
    done = {path.parent.name.partition("_")[0] for path in out.glob("*/execution_record.json")}
    return [one for one in rows if one not in done]


def ray(place: Path, options: argparse.Namespace) -> dict[str, object]:
    prompts = prompts_in(place, options)
    teachers = TinyWorld() if options.teachers == "tinyworld" else SmallTeachers()
    figures: dict[str, object] = {}
    began = time.monotonic()
    make(prompts, place / "threads", teachers, ThreadExecutor(2))
    figures["threads_seconds_each"] = round((time.monotonic() - began) / options.prompts, 4)
    began = time.monotonic()
    (place / "package").mkdir()
    with ray_here(place / "package"):
        figures["ray_start_seconds"] = round(time.monotonic() - began, 1)
        began = time.monotonic()
        work = RayExecutor(actors=2, parallel=1)
        make(prompts, place / "first", teachers, work)
        first = time.monotonic() - began
        began = time.monotonic()
        make(prompts, place / "ray", teachers, work)
        figures["ray_seconds_each"] = round((time.monotonic() - began) / options.prompts, 4)
        figures["ray_first_seconds_each"] = round(first / options.prompts, 4)
    assert records(place / "threads") == records(place / "ray"), "records differ"
    return figures | {"files": len(records(place / "ray"))}


def node(place: Path, options: argparse.Namespace) -> dict[str, object]:
    """Two Ray nodes beside the driver's; one of them is killed in the middle."""
    import ray as library
    from ray.cluster_utils import Cluster

    prompts = prompts_in(place, options)
    make(prompts, place / "alone", SmallTeachers(), ThreadExecutor(2))
    (place / "package").mkdir()
    with importable(place / "package"):
        sizes = {"object_store_memory": STORE, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **sizes})
        nodes = [cluster.add_node(num_cpus=1, object_store_memory=STORE) for _ in range(2)]
        library.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        out, killed = place / "killed", threading.Event()

        def kill() -> None:
            while len(list(out.glob("*/execution_record.json"))) < options.prompts // 3:
                time.sleep(0.05)
            cluster.remove_node(nodes[1], allow_graceful=False)
            killed.set()

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            made = make(prompts, out, SmallTeachers(seconds=0.1), RayExecutor(actors=2, parallel=2))
            thread.join(60)
        finally:
            library.shutdown()
            cluster.shutdown()
    drawn, recorded = draws_of(out)
    assert killed.is_set() and made.totals.to_do == made.totals.failed == 0, made.totals
    assert drawn == recorded, f"{drawn - recorded} draws were made again"
    assert records(place / "alone") == records(out), "records differ"
    return {"draws": drawn, "drawn_again": drawn - recorded, "files": len(records(out))}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["kills", "ray", "node"])
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--teachers", choices=["small", "tinyworld"], default="small")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began, used = time.monotonic(), time.process_time()
    with tempfile.TemporaryDirectory() as place:
        figures = {"kills": kills, "ray": ray, "node": node}[options.what](Path(place), options)
    figures |= {
        "what": options.what,
        "prompts": options.prompts,
        "seconds": round(time.monotonic() - began, 1),
        "processor_seconds": round(time.process_time() - used + sum(os.times()[2:4]), 1),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
