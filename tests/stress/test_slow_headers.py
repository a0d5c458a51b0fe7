"""Thousands of connections that send half a header and are opened again when they are closed.

The real command is started (`serve`), with the number of open files that most systems allow by default.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

pytest.importorskip("fastapi", reason='a service needs: pip install "interleave-thinker[serve]"')
pytest.importorskip("prometheus_client", reason='a service needs: pip install "interleave-thinker[serve]"')

from support.ray_here import importable
from support.service_load import percentile
from support.strained_service import memory_of

pytestmark = [
    pytest.mark.stress,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(sys.platform != "linux", reason="workers and memory are read from /proc"),
]

CALL = "import sys; sys.argv[0] = 'interleave-thinker'; from interleave_thinker.cli import main; main()"
FILES, CONNECTIONS, SECONDS = 1024, 3000, 60.0
REOPENED = 200
"""Closed connections that are opened again each second."""
HALF = b"POST /edit HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
MAX_SECONDS = 30.0


def test_others_are_served_during_the_attack() -> None:
    """Check an ordinary client's requests during the attack, each on a new connection, and the log."""
    with _service() as (url, process, log):
        quiet = [_asked(url, seed) for seed in range(50)]
        before = memory_of(process.pid)
        here, there = multiprocessing.get_context("fork").Pipe()
        attack = multiprocessing.get_context("fork").Process(
            target=attack_from, args=(there, url), daemon=True
        )
        attack.start()
        until, strained = time.monotonic() + SECONDS, list[float | None]()
        while time.monotonic() < until:
            strained.append(_asked(url, 1000 + len(strained)))
            time.sleep(0.1)
        memory = memory_of(process.pid) - before
        here.send(None)
        opened, most_open = here.recv()
        attack.join()
        after = _asked(url, 10**6)
        served = [one for one in strained if one is not None]
        found = {
            "open_files": FILES,
            "attackers": CONNECTIONS,
            "attackers_open_at_a_time": most_open,
            "attackers_opened": opened,
            "asked": len(strained),
            "not_served": len(strained) - len(served),
            "p50_quiet_ms": _milliseconds([one or MAX_SECONDS for one in quiet], 50),
            "p50_ms": _milliseconds(served, 50),
            "p95_ms": _milliseconds(served, 95),
            "longest_ms": _milliseconds(served, 100),
            "served_after": after is not None,
            "mb_more": round(memory, 1),
            "log_bytes": log.stat().st_size,
        }
    print(json.dumps(found))
    assert strained and found["not_served"] == 0
    assert found["served_after"]
    assert opened > CONNECTIONS
    assert found["log_bytes"] < 10_000
    assert found["mb_more"] < 200


def attack_from(pipe: Connection, url: str) -> None:
    """Attack until a message arrives through the pipe, then send the number of opened connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, CONNECTIONS + 1000), most))
    attack = Attack(url, CONNECTIONS)
    attack.run(pipe.poll)
    pipe.send((attack.opened, attack.most_open))


class Attack:
    """Keeps a number of half headers open, adding a byte to each every few seconds."""

    def __init__(self, url: str, number: int) -> None:
        parts = urlsplit(url)
        self._place = parts.hostname or "", parts.port or 80
        self._number = number
        self.opened = self.most_open = 0

    def run(self, stopped: Callable[[], bool]) -> None:
        """Run until `stopped` returns true."""
        chosen = selectors.DefaultSelector()
        began = fed = time.monotonic()
        while not stopped():
            allowed = self._number + REOPENED * (time.monotonic() - began)
            while len(chosen.get_map()) < self._number and self.opened < allowed:
                self._open(chosen)
            self.most_open = max(self.most_open, len(chosen.get_map()))
            for key, _ in chosen.select(0.1):
                self._look(chosen, key)
            if time.monotonic() > fed + 3:
                fed = time.monotonic()
                for key in list(chosen.get_map().values()):
                    if not key.events & selectors.EVENT_WRITE:
                        self._send(chosen, key.fileobj, b"a")  # type: ignore[arg-type]
        for key in list(chosen.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]

    def _open(self, chosen: selectors.BaseSelector) -> None:
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(self._place)
        chosen.register(one, selectors.EVENT_WRITE)
        self.opened += 1

    def _look(self, chosen: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        one: Any = key.fileobj
        if key.events & selectors.EVENT_WRITE:
            chosen.modify(one, selectors.EVENT_READ)
            self._send(chosen, one, HALF)
            return
        try:
            over = not one.recv(4096)
        except OSError:
            over = True
        if over:
            self._close(chosen, one)

    def _send(self, chosen: selectors.BaseSelector, one: socket.socket, data: bytes) -> None:
        try:
            one.send(data)
        except OSError:
            self._close(chosen, one)

    def _close(self, chosen: selectors.BaseSelector, one: socket.socket) -> None:
        chosen.unregister(one)
        one.close()


def _milliseconds(seconds: list[float], share: float) -> float | None:
    found = percentile(seconds, share)
    return None if found is None else round(1000 * found, 1)


def _asked(url: str, seed: int) -> float | None:
    """Return the seconds of a request on a new connection; `None` if it got no image."""
    began = time.monotonic()
    body = {"prompt": "a boat", "seed": seed}
    try:
        answer = httpx.post(f"{url}/edit", json=body, trust_env=False, timeout=MAX_SECONDS)
    except httpx.TransportError:
        return None
    return time.monotonic() - began if answer.status_code == 200 else None


@contextmanager
def _service() -> Iterator[tuple[str, subprocess.Popen[str], Path]]:
    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))

    with tempfile.TemporaryDirectory() as place, importable(Path(place)):
        log = Path(place) / "log"
        with log.open("w") as file:
            command = [sys.executable, "-c", CALL, "serve", "--port", "0", "--generator", "fake:96"]
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            process = subprocess.Popen(
                [*command, "--devices", "cpu"], stderr=file, text=True, env=environment, preexec_fn=few_files
            )
            try:
                yield _address(log, process), process, log
            finally:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()


def _address(log: Path, process: subprocess.Popen[str]) -> str:
    until = time.monotonic() + 240
    while time.monotonic() < until and process.poll() is None:
        if found := re.search(r"Listening at (\S+)", log.read_text()):
            url = found[1]
            try:
                if httpx.get(f"{url}/ready", trust_env=False, timeout=30).status_code == 200:
                    return url
            except httpx.TransportError:
                pass
        time.sleep(0.2)
    raise RuntimeError(log.read_text())
