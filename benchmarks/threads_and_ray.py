"""Compares `data trajectories` with the demo's models by threads and by Ray, using the real commands.

    OMP_NUM_THREADS=1 python -m benchmarks.threads_and_ray --prompts 400 --out runs/both
    OMP_NUM_THREADS=1 python -m benchmarks.threads_and_ray --chain runs/chain --out runs/both

It measures wall-clock and processor seconds with all child processes, and compares every file of the runs.
Processor seconds are read from /proc while a process lives, because Ray's workers are not children of the
command in the end. `--chain` reuses the prompts and thread runs of benchmarks/chain.py, so that only Ray
runs. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from support.ray_here import importable
from support.small_teachers import records

from interleave_thinker.tinyworld.lab.data.prompt_rows import make_prompts

from . import ROOT
from .chain import HERE

TICKS = os.sysconf("SC_CLK_TCK")
LOOKED_EVERY = 0.5
GIVEN_UP = 3


class Family:
    """Processor seconds of a process and all its descendants, including those that have ended."""

    def __init__(self, first: int) -> None:
        self.known = {first}
        self._ticks: dict[int, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def seconds(self) -> float:
        """Stop sampling and return the sum."""
        self._ended.set()
        self._thread.join()
        return sum(self._ticks.values()) / TICKS

    def _look(self) -> None:
        while not self._ended.wait(LOOKED_EVERY):
            for entry in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
                try:
                    # The second field is a name in parentheses, which can contain spaces.
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                process, parent = int(entry.name), int(fields[1])
                if process in self.known or parent in self.known:
                    # Replace the set, because another thread may be iterating over it.
                    self.known = self.known | {process}
                    self._ticks[process] = int(fields[11]) + int(fields[12])


def carried_out(prompts: Path, out: Path, *more: str) -> dict[str, Any]:
    """Run the command and return its times."""
    command = ["data", "trajectories", str(prompts), "--out", str(out), *more]
    print(f"$ interleave-thinker {' '.join(command)}", flush=True)
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", HERE, str(ROOT / "tests"), *command])
    family = Family(process.pid)
    code = process.wait()
    if code not in (0, GIVEN_UP):
        sys.exit(f"data trajectories ended with exit code {code}")
    return {"seconds": round(time.monotonic() - began, 1), "processor_seconds": round(family.seconds(), 1)}


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", type=int, default=400)
    parser.add_argument("--chain", type=Path, help="OUT folder of benchmarks/chain.py.")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    if options.chain:
        prompts, threads = options.chain / "prompts" / "prompts.jsonl", options.chain / "runs"
        figures["threads"] = json.loads((options.chain / "chain.json").read_text())["trajectories"]
    else:
        prompts, threads = make_prompts(options.out / "prompts", options.prompts, 0), options.out / "threads"
        figures["threads"] = carried_out(prompts, threads, "--parallel", "2")
    with tempfile.TemporaryDirectory() as package, importable(Path(package)):
        ray = options.out / "ray"
        figures["ray"] = carried_out(prompts, ray, "--ray", "local", "--workers", "2", "--parallel", "1")
    ones, others = records(threads), records(ray)
    unequal = sorted(name for name in ones.keys() | others.keys() if ones.get(name) != others.get(name))
    figures |= {"files": len(ones), "unequal": unequal[:10]}
    print(json.dumps(figures))
    sys.exit(1 if unequal else 0)


if __name__ == "__main__":
    main()
