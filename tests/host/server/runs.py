"""Reads the files of runs in the server's output folder, and cancels running prompts."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..graphs.klein import node
from .comfy_server import ComfyServer

ROUTE = "/interleave-thinker"
AT_ONCE = 30.0
"""Seconds until another prompt must have been answered after a cancel: well under one on an idle machine, but
these tests share theirs. The cancelled runs would take minutes."""


def journals(host: ComfyServer, request: str) -> list[Path]:
    """Return the run folders of a request.

    All test files share the server, so a request whose folders are counted belongs to one test.
    """
    name = f"{request.replace(' ', '-')}-??????????"
    runs = host.base / "output" / "interleave-thinker"
    return [*runs.glob(name), *runs.glob(f"{name}-seed-*")]


def made(host: ComfyServer, request: str) -> dict[str, int]:
    """Every record of a run with the time at which it was written."""
    return {
        f"{path.parent.name}/{path.name}": path.stat().st_mtime_ns
        for folder in journals(host, request)
        for kind in ("attempts", "verdicts", "pictures")
        for path in folder.glob(f"{kind}/[0-9a-f]*")
    }


def ran_in(host: ComfyServer) -> list[str]:
    path: Path = host.base / "output" / "test-nodes-that-ran.txt"
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


def wait_until(host: ComfyServer, true: Callable[[], Any], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, host.log_tail()
        time.sleep(0.02)


def answers_at_once(host: ComfyServer, started: str) -> None:
    """Cancel a running prompt; another one must then be answered without delay."""
    assert host.post("/interrupt").status_code == 200
    pressed = time.monotonic()
    other = {"image": node("EmptyImage", width=16, height=16, batch_size=1, color=int(pressed) % 256)}
    other["out"] = node("PreviewImage", images=["image", 0])
    host.run(other)
    print(f"answered {time.monotonic() - pressed:.2f} s after cancel")
    assert time.monotonic() - pressed < AT_ONCE
    entry = host.wait(started)
    assert [kind for kind, _ in entry["status"]["messages"]][-1] == "execution_interrupted"
