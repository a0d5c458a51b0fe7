"""Starts, loads, measures and ends a service under test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from support.service_load import Load

HERE = Path(__file__).resolve().parent


class Running:
    """A service running in a separate process."""

    def __init__(self, url: str, process: subprocess.Popen[str]) -> None:
        self.url, self.process = url, process

    def status(self) -> dict[str, Any]:
        """Return the answer of GET /status."""
        return httpx.get(f"{self.url}/status", trust_env=False, timeout=30).json()

    def memory(self) -> float:
        """Return the memory of the HTTP process in MB."""
        return memory_of(self.process.pid)

    def workers(self) -> list[int]:
        """Return the process ids of the replicas on Ray."""
        return [one for one in family(self.process.pid) if b"ServeReplica:interleave" in _line(one)]

    def load(self, **settings: Any) -> dict[str, Any]:
        """Run a load and return its results."""
        return Load(self.url, **settings).run().summary()

    def wait(self, alive: int) -> float:
        """Return once this many workers are alive, with the seconds it took."""
        began = time.monotonic()
        while self.status()["active_workers"] < alive:
            if time.monotonic() > began + 400:
                raise TimeoutError(json.dumps(self.status()))
            time.sleep(0.05)
        return time.monotonic() - began

    def end(self, kind: int = signal.SIGTERM) -> None:
        """Send a signal that ends it."""
        self.process.send_signal(kind)


@contextmanager
def service(
    generator: str, workers: int = 1, models: list[dict[str, Any]] | None = None, **settings: Any
) -> Iterator[Running]:
    """Run the service with all workers alive, several on Ray. `models` replaces the one of `generator`."""
    given = models or [{"name": "model", "generator": generator, "devices": ["cpu"] * workers}]
    line = [sys.executable, str(HERE / "serve_card.py"), json.dumps({"models": given, "settings": settings})]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        running = Running(process.stdout.readline().strip(), process)
        running.wait(workers)
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    # A child belongs to the thread that started it.
    listed = " ".join(file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children"))
    return [pid, *(one for child in listed.split() for one in family(int(child)))]


def memory_of(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
