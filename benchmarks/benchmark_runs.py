"""Overhead of benchmark runs per item, with agents and a generator that need no model.

    OMP_NUM_THREADS=1 python -m benchmarks.benchmark_runs --items 1000        # the last line is JSON

It measures processor time of run, collect and score, and peak memory after a tenth of the items and after
all.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import tempfile
import time
from pathlib import Path

from support.small_teachers import SmallTeachers
from support.wise_runs import carry_out, setting_of, wise_data

from interleave_thinker.evaluation.runs.scores import score
from interleave_thinker.evaluation.runs.submission import collect


def cost(folder: Path, items: int) -> dict[str, object]:
    """Return the processor time per item and the peak memory, for a tenth of the items and for all."""
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
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(cost(Path(name), given.items)))


if __name__ == "__main__":
    main()
