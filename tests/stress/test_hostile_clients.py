"""Clients that are slow, send too much or send nonsense, and their effect on other clients."""

from __future__ import annotations

import json
import random
import socket
import sys
import threading
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

pytest.importorskip("fastapi", reason='a service needs: pip install "interleave-thinker[serve]"')
pytest.importorskip("prometheus_client", reason='a service needs: pip install "interleave-thinker[serve]"')

from support.strained_service import Running, service

from interleave_thinker.service.check import photograph_like

pytestmark = [
    pytest.mark.stress,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(sys.platform != "linux", reason="workers and memory are read from /proc"),
]

Figures = dict[str, Any]
GIB = 1024**3
SLOW, MUTATED = 100, 10_000


def test_hostile_clients_do_not_disturb_others() -> None:
    """Run all attacks against one service.

    `quiet` and `strained` are an ordinary client's figures before and during.
    """
    with service("fake:96") as running:
        quiet = running.load(clients=2, seconds=6)
        before = running.memory()
        found: Figures = {"p95_quiet_ms": quiet["milliseconds"]["p95"]}
        stop = threading.Event()
        slow = [threading.Thread(target=_drip, args=(running.url, stop)) for _ in range(SLOW)]
        for one in slow:
            one.start()
        strained = running.load(clients=2, seconds=10, seed=10**6)
        stop.set()
        for one in slow:
            one.join()
        found |= {
            "p95_with_slow_ms": strained["milliseconds"]["p95"],
            "with_slow_answers": strained["answers"],
            "gigabyte_status": _gigabyte(running.url),
            "mutated": _mutated(running),
            "slow_body_status": _late(),
        }
        found |= {
            "mb_more": running.memory() - before,
            "workers_alive": running.status()["active_workers"],
            "restarts": sum(worker["restarts"] for worker in running.status()["workers"]),
            "after": running.load(clients=2, seconds=2, seed=2 * 10**6)["answers"],
        }
    print(json.dumps(found))
    assert found["with_slow_answers"].keys() == found["after"].keys() == {"image"}
    assert found["gigabyte_status"]["413"] >= 1 and "200" not in found["gigabyte_status"]
    assert sum(found["mutated"].values()) == MUTATED
    assert found["mutated"].keys() <= {"200", "400", "422", "503"}
    assert found["slow_body_status"] == "408"
    assert (found["workers_alive"], found["restarts"]) == (1, 0)
    assert found["mb_more"] < 200


def _opened(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname or "", parts.port or 80), timeout=40)


def _head(length: int) -> bytes:
    lines = ("POST /edit HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json")
    return "\r\n".join((*lines, f"Content-Length: {length}", "", "")).encode()


def _drip(url: str, stop: threading.Event) -> None:
    """Send one byte per second of an endless body."""
    with _opened(url) as one:
        one.sendall(_head(1000))
        while not stop.wait(1.0):
            try:
                one.sendall(b" ")
            except OSError:
                return


def _gigabyte(url: str) -> dict[str, int]:
    """Return the statuses for a body announced as 1 GiB, and for one without a length."""
    statuses: Counter[str] = Counter()
    with _opened(url) as one:
        one.sendall(_head(GIB))
        statuses[_status(one)] += 1

    def endless() -> Any:
        for _ in range(1024):
            yield b" " * 1024**2

    try:
        answer = httpx.post(
            f"{url}/edit",
            content=endless(),
            headers={"Content-Type": "application/json"},
            trust_env=False,
            timeout=60,
        )
        statuses[str(answer.status_code)] += 1
    except httpx.TransportError as error:
        statuses[type(error).__name__] += 1
    return dict(statuses)


def _late() -> str:
    """Return the status for a body that never arrives."""
    with service("fake:96", body_seconds=1.0) as running, _opened(running.url) as one:
        one.sendall(_head(10))
        return _status(one)


def _status(one: socket.socket) -> str:
    return one.recv(64).split(b" ")[1].decode() if one else ""


def _mutated(running: Running) -> dict[str, int]:
    """Return the statuses for bodies with changed, removed, repeated or malicious bytes."""
    chance = random.Random(7)
    image = photograph_like((32, 32)).base64_png()
    body = {"image": image, "prompt": "a boat", "seed": 1, "guidance_scale": 1.0, "width": 64, "height": 64}
    good = json.dumps(body).encode()
    evil = [
        b"NaN",
        b"1e999",
        b"-1",
        b"99999999999999999999",
        b"null",
        b'"\\ud800"',
        b"[" * 2000,
        b"{}",
        b"\x00",
    ]
    statuses: Counter[str] = Counter()
    with httpx.Client(base_url=running.url, trust_env=False, timeout=30) as client:
        for number in range(MUTATED):
            data = bytearray(good)
            for _ in range(chance.randint(1, 4)):
                at = (
                    chance.randrange(len(data))
                    if chance.random() < 0.5
                    else chance.randrange(len(data) - 120, len(data))
                )
                match chance.randrange(4):
                    case 0:
                        data[at] = chance.randrange(256)
                    case 1:
                        del data[at : at + chance.randint(1, 40)]
                    case 2:
                        data[at:at] = data[at : at + chance.randint(1, 40)]
                    case _:
                        data[at:at] = chance.choice(evil)
                if len(data) < 200:
                    break
            path = ("/edit", "/generate", "/fill", "/v1/images/generations")[number % 4]
            kind = {"Content-Type": "application/json"}
            try:
                statuses[str(client.post(path, content=bytes(data), headers=kind).status_code)] += 1
            except httpx.TransportError as error:
                statuses[type(error).__name__] += 1
    return dict(statuses)
