"""Cost of a request to the image service, images per second, memory, and scaling on Ray Serve.

    python -m research.experiments.service overhead tinyworld balance --repeats 3
    python -m research.experiments.service all

Prints a table and a JSON line with medians. On Ray, the real command is started (`serve --ray local`), with
processes that import this checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from support.ray_here import importable
from support.service_load import percentile
from support.strained_service import Running, family, service

from interleave_thinker.backend.models.generators import open_generator

Figures = dict[str, Any]
COMMAND = "from interleave_thinker.cli import main; main()"
MAX_SECONDS = 300.0
MAX_REPLICAS, BUSY, QUIET = 4, 40.0, 120.0
"""Maximum number of replicas; seconds of load; seconds to wait until the other replicas have ended."""


def overhead() -> Figures:
    """Measure one client with one request at a time. `model_ms` is the part of generating and encoding."""
    found: Figures = {}
    for name, generator, source, number in (
        ("96", "fake:96", "96x96", 300),
        ("1024", "card:1024:0", "1024x1024", 40),
    ):
        with service(generator) as running:
            times, model = one_by_one(running, source, number)
        found |= {
            f"p50_{name}_ms": percentile(times, 50),
            f"p95_{name}_ms": percentile(times, 95),
            f"model_{name}_p50_ms": percentile(model, 50),
        }
    return found


def one_by_one(running: Running, source: str, number: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds of each edit, and of these the model's part."""
    from interleave_thinker.backend.core.types.run_settings import sides_of
    from interleave_thinker.service.check import photograph_like

    image = photograph_like(sides_of(source)).base64_png()
    times, model = [], []
    with httpx.Client(base_url=running.url, trust_env=False, timeout=60) as client:
        for seed in range(number + 5):
            content = httpx.Request("POST", running.url, json={"image": image, "prompt": "a", "seed": seed})
            data = content.read()
            began = time.perf_counter()
            answer = client.post("/edit", content=data, headers={"Content-Type": "application/json"})
            took = 1000 * (time.perf_counter() - began)
            if seed >= 5:
                times.append(took)
                model.append(1000 * answer.json()["processing_time"])
    return times, model


def tinyworld() -> Figures:
    """Measure 16 clients with two workers, then with one worker and batches of 1 and 16."""
    found: Figures = {}
    for name, workers, batch in (("two_workers", 2, 1), ("batch_1", 1, 1), ("batch_16", 1, 16)):
        with service("tinyworld", workers, batch=batch) as running:
            running.load(clients=16, seconds=2)
            loaded = running.load(clients=16, seconds=8, seed=10_000)
            found[f"{name}_images_s"] = loaded["images_a_second"]
            found[f"{name}_answers"] = loaded["answers"]
    found["batch_gain"] = round(found["batch_16_images_s"] / found["batch_1_images_s"], 3)
    return found


def balance() -> Figures:
    """Measure 16 clients with 1, 2 and 4 workers of 0.25 s, and two services against one with two workers."""
    found: Figures = {}
    for workers in (1, 2, 4):
        with service("card:96:0.25", workers) as running:
            found[f"workers_{workers}_images_s"] = running.load(clients=16, seconds=8)["images_a_second"]
    with service("card:96:0.25") as first, service("card:96:0.25") as second:
        two = _client_rate(f"{first.url},{second.url}")
    with service("card:96:0.25", 2) as both:
        one = _client_rate(both.url)
    return found | {"two_services_images_s": two, "one_of_two_images_s": one, "share": round(two / one, 3)}


def _client_rate(urls: str) -> float:
    """Return the images per second of a client of several services."""
    generator: Any = open_generator(f"http:{urls}")
    number = 48
    began = time.perf_counter()
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda seed: generator.draw("a boat", None, seed), range(number)))
    return round(number / (time.perf_counter() - began), 3)


def memory() -> Figures:
    """Measure the memory of the HTTP process over many requests without a cache: it should stay flat."""
    with service("fake:96", keep=0) as running:
        running.load(clients=16, seconds=5)
        before = running.memory()
        loaded = running.load(clients=16, seconds=60, seed=100_000, source="96x96")
        return {"requests": loaded["requests"], "mb_before": before, "mb_after": running.memory()}


@contextmanager
def on_ray(generator: str, *options: str) -> Iterator[tuple[Running, float]]:
    """Run the service on its own cluster; yields it with the seconds until it was healthy."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    line = [sys.executable, "-c", COMMAND, "serve", "--generator", generator, "--ray", "local"]
    line += ["--port", str(port), "--set", "replica_cpus=0.1", "--set", "per_client=100000", *options]
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
    bounds = (
        "--set",
        "min_replicas=1",
        "--set",
        f"max_replicas={MAX_REPLICAS}",
        "--set",
        "downscale_seconds=10",
    )
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


CHECKS: dict[str, Callable[[], dict[str, Any]]] = {
    "overhead": overhead,
    "tinyworld": tinyworld,
    "balance": balance,
    "memory": memory,
    "ray": ray,
    "ray-scaling": scaling,
}


def median(values: list[Any]) -> Any:
    """Return the median of numbers; of other values the last."""
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in values)
    return round(statistics.median(values), 3) if numbers else values[-1]


def main() -> None:
    """Run the selected checks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checks", nargs="+", choices=[*CHECKS, "all"])
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args()
    for name in CHECKS if "all" in given.checks else given.checks:
        began = time.monotonic()
        runs = [CHECKS[name]() for _ in range(given.repeats)]
        found = {key: median([one[key] for one in runs]) for key in runs[-1]}
        print(f"{name} ({given.repeats} times, {time.monotonic() - began:.0f} s)")
        for key, value in found.items():
            print(f"  {key:<26}{value}")
        print(json.dumps({"check": name, "repeats": given.repeats} | found), flush=True)


if __name__ == "__main__":
    main()
