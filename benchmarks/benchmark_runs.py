"""Benchmarks killed at random moments and shared by processes, and what the machinery costs an item.

Decision: runs are forked children with everything loaded already, so that SIGKILL falls into the run and not
into its imports. Every finished draw is noted; a draw may be noted twice only where a kill fell between its
end and its record, so at most once a kill. In the end the submission must be that of an undisturbed run, byte
for byte.

    OMP_NUM_THREADS=1 python benchmarks/benchmark_runs.py kills --kills 30        # the last line is JSON
    OMP_NUM_THREADS=1 python benchmarks/benchmark_runs.py cost --items 1000
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import conftest  # noqa: F401 - makes the package importable
from support.small_teachers import SmallTeachers

from interleave_thinker.evaluation.benchmarks import open_benchmark
from interleave_thinker.evaluation.runs.running import BenchmarkRun
from interleave_thinker.evaluation.runs.scores import score
from interleave_thinker.evaluation.runs.settings import (
    BenchmarkOptions,
    BenchmarkSettings,
    digest_of,
    items_of,
    take_folder,
)
from interleave_thinker.evaluation.runs.submission import collect
from interleave_thinker.training.data.executors.threads import ThreadExecutor
from interleave_thinker.training.data.trajectories.options import TrajectoryOptions


def wise_data(folder: Path, count: int) -> Path:
    """Prompts of ours in the form of WISE."""
    path = folder / "merge.json"
    rows = [{"Prompt": f"what {n} is", "Explanation": "it", "prompt_id": n} for n in range(1, count + 1)]
    path.write_text(json.dumps(rows))
    return path


def setting_of(data: Path) -> BenchmarkSettings:
    options = BenchmarkOptions()
    setting = BenchmarkSettings(
        benchmark="wise",
        data=str(data),
        data_digest="",
        models={},
        preset=options.preset,
        settings=options.run_settings(),
        version="1",
        commit="unknown",
    )
    items = open_benchmark("wise").items(setting.where())
    return setting.model_copy(update={"data_digest": digest_of(items)})


def carry_out(out: Path, setting: BenchmarkSettings, teachers: SmallTeachers) -> None:
    take_folder(out, setting)
    options = TrajectoryOptions(go_on=True, retry_failed=True)
    run = BenchmarkRun(out, teachers, setting.settings, options, ThreadExecutor(2), lambda line: None)
    run.carry_out(items_of(open_benchmark("wise"), setting))


def child(out: Path, setting: BenchmarkSettings, teachers: SmallTeachers) -> int:
    number = os.fork()
    if number == 0:
        carry_out(out, setting, teachers)
        os._exit(0)
    return number


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def kills(folder: Path, count: int, items: int) -> dict[str, object]:
    """Runs by two processes at a time, one of which is killed, until so many kills were made; then to the
    end."""
    setting = setting_of(wise_data(folder, items))
    began = time.monotonic()
    carry_out(folder / "alone", setting, SmallTeachers(seconds=0.01))
    alone = time.monotonic() - began
    log, out, chance = folder / "draws.log", folder / "killed", random.Random(0)
    teachers = SmallTeachers(log, seconds=0.01)
    killed = in_vain = 0
    while killed < count:
        both = [child(out, setting, teachers) for _ in range(2)]
        time.sleep(chance.uniform(0.05, alone / count))
        victim = chance.choice(both)
        os.kill(victim, signal.SIGKILL)
        _, how = os.waitpid(victim, 0)
        killed += os.WIFSIGNALED(how)
        in_vain += not os.WIFSIGNALED(how)
        for one in both:
            if one != victim:
                # The other one too: what it was at is resumed by the next pair.
                os.kill(one, signal.SIGKILL)
                _, how = os.waitpid(one, 0)
                killed += os.WIFSIGNALED(how)
        if in_vain > 3:
            break
    carry_out(out, setting, teachers)
    drawn = log.read_text().split()
    for name in ("alone", "killed"):
        collect(folder / name, log=lambda line: None)
    equal = files_of(folder / "alone" / "submission") == files_of(folder / "killed" / "submission")
    return {
        "items": items,
        "kills": killed,
        "draws": len(set(drawn)),
        "draws_noted_twice": len(drawn) - len(set(drawn)),
        "submission_equal": equal,
    }


def cost(folder: Path, items: int) -> dict[str, object]:
    """Processor time an item of run, collect and score, painted and scripted; most memory after a tenth of
    the items and after all."""
    found: dict[str, object] = {"items": items}
    for count in (items // 10, items):
        data = folder / str(count)
        data.mkdir()
        setting = setting_of(wise_data(data, count))
        times = [time.process_time()]
        carry_out(data / "out", setting, SmallTeachers())
        times.append(time.process_time())
        collect(data / "out", log=lambda line: None)
        times.append(time.process_time())
        results = data / "scores.jsonl"
        results.write_text("".join(f'{{"prompt_id": {n}, "score": 1}}\n' for n in range(1, count + 1)))
        score(data / "out", results)
        times.append(time.process_time())
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        spent = [round(1000 * (after - before) / count, 2) for before, after in itertools.pairwise(times)]
        found[f"{count}"] = {
            "run_ms": spent[0],
            "collect_ms": spent[1],
            "score_ms": spent[2],
            "memory_mb": memory,
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["kills", "cost"])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--items", type=int)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if given.what == "kills":
            found = kills(Path(name), given.kills, given.items or 120)
        else:
            found = cost(Path(name), given.items or 1000)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
