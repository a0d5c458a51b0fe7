"""The service on Ray Serve: start time, memory, cost of a request, and scaling of replicas with the load.

The real command is started (`serve --ray local`), with processes that import this checkout.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from support.ray_here import importable
from support.service_load import percentile
from support.strained_service import Running, family, service

from .throughput import one_by_one

Figures = dict[str, Any]
COMMAND = "from interleave_thinker.cli import main; main()"
MAX_SECONDS = 300.0
MAX_REPLICAS, BUSY, QUIET = 4, 40.0, 120.0
"""Maximum number of replicas; seconds of load; seconds to wait until the other replicas have ended."""


@contextmanager
def on_ray(generator: str, *options: str) -> Iterator[tuple[Running, float]]:
    """Run the service on its own cluster; yields it with the seconds until it was healthy."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    line = [sys.executable, "-c", COMMAND, "serve", "--generator", generator, "--ray", "local"]
    line += ["--port", str(port), "--replica-cpus", "0.1", "--per-client", "100000", *options]
    with tempfile.TemporaryDirectory() as place, importable(Path(place)):
        began = time.monotonic()
        process = subprocess.Popen(line, env=os.environ | {"OMP_NUM_THREADS": "1"}, text=True)
        running = Running(f"http://127.0.0.1:{port}", process)
        try:
            while not _alive(running.url):
                if process.poll() is not None or time.monotonic() > began + MAX_SECONDS:
                    raise TimeoutError("the service did not become healthy")
                time.sleep(0.1)
            yield running, time.monotonic() - began
        finally:
            process.terminate()
            process.wait(60)


def ray() -> Figures:
    """Measure one client at a time, and the memory of all processes while idle."""
    found: Figures = {}
    with on_ray("fake:96") as (running, seconds):
        found |= {"start_s": round(seconds, 1)}
        time.sleep(5)
        found |= {
            "idle_mb": round(_memory(running.process.pid)),
            "processes": len(family(running.process.pid)),
        }
        times, _ = one_by_one(running, "96x96", 300)
        found |= {"p50_96_ms": percentile(times, 50), "p95_96_ms": percentile(times, 95)}
    return found


def scaling() -> Figures:
    """Scale from 1 to 4 replicas and back, with 16 clients.

    An image takes 0.25 s without processor time: the replicas call a plain service with four workers.
    """
    found: Figures = {}
    bounds = ("--min-replicas", "1", "--max-replicas", str(MAX_REPLICAS), "--downscale-seconds", "10")
    with service("card:96:0.25", MAX_REPLICAS) as card, on_ray(f"http:{card.url}", *bounds) as (running, _):
        result: dict[str, Any] = {}
        began = time.monotonic()

        def load() -> None:
            result.update(running.load(clients=16, seconds=BUSY))

        asking = threading.Thread(target=load)
        asking.start()
        found["seconds_to_4"] = _until(running.url, MAX_REPLICAS, began, BUSY)
        asking.join()
        ended = time.monotonic()
        found["seconds_back_to_1"] = _until(running.url, 1, ended, QUIET)
        found |= {name: result[name] for name in ("requests", "answers", "images_a_second")}
    return found


def _until(url: str, workers: int, since: float, most: float) -> float | None:
    """Return the seconds until this many replicas are alive; `None` if that does not happen in time."""
    while time.monotonic() < since + most:
        if _alive(url) == workers:
            return round(time.monotonic() - since, 1)
        time.sleep(0.5)
    return None


def _alive(url: str) -> int:
    try:
        return httpx.get(f"{url}/health", trust_env=False, timeout=30).json()["workers"]["alive"]
    except (httpx.HTTPError, ValueError, KeyError):
        return 0


def _memory(pid: int) -> float:
    """Return the memory of a process and its descendants in MB; shared memory counts once."""
    total = 0
    for one in family(pid):
        try:
            rollup = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        total += int(rollup.partition("\nPss:")[2].split()[0])
    return total / 1024
