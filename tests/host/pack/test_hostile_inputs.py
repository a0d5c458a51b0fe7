"""Hundreds of hostile inputs in the real host: it lives on, says in one line what was wrong, and writes
nowhere else."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from support.image_service import image_service
from support.stories import make_trajectory

from interleave_thinker.backend.journal.copy import save_trajectory

from ..graphs.klein import Graph, loaders, node
from ..server.comfy_server import PACK, ROOT, ComfyServer
from .hostile_folders import make_folders
from .hostile_inputs import (
    CRITIC_REPLIES,
    LONG,
    MARK,
    PLAN_TEXTS,
    PLANNER_REPLIES,
    SCRIPTS,
    Hostile,
    agent,
    by_hand,
    judging,
    looping,
    planning,
    said,
    shown,
    widgets,
)

OURS = f"{PACK}.backend."
"""Part of the full name of every error class of the pack, and of no other."""
LONGEST_LINE = 2000
SECONDS = 240.0
OWN_FOLDERS = ("output", "temp", "user", "__pycache__")
"""Folders that the host writes into; `user` holds its settings."""

numbers = itertools.count(1)


def drive(host: ComfyServer, cases: list[Hostile]) -> Counter[str]:
    """Queue every case with a good prompt behind it; returns how they ended, and fails for all that ended
    badly.

    Every prompt has the loaders, wired to nothing or not, so that the host keeps what they loaded.
    """
    before = written_files(host)
    queued: list[tuple[Hostile, str | None, str]] = []
    ends: Counter[str] = Counter()
    faults: list[str] = []
    with httpx.Client(base_url=host.url, timeout=120) as client:
        for case in cases:
            refusal, started = queue(client, loaders() | case.graph)
            if refusal is not None:
                ends["refused"] += 1
                faults += [f"{case.name}: {fault}" for fault in [fault_of_refusal(refusal)] if fault]
            good_refusal, good = queue(client, loaders() | by_hand(f"1. good {next(numbers)}"))
            assert good is not None, f"after {case.name}: {good_refusal}"
            queued.append((case, started, good))
        deadline = time.monotonic() + SECONDS
        for case, started, good in queued:
            entry = ended(client, good, deadline)
            assert entry is not None, f"{case.name}: the next prompt did not end.\n{host.log_tail()}"
            if entry["status"]["status_str"] != "success":
                faults.append(f"after {case.name} a good prompt failed: {entry['status']}")
            if started is not None:
                status = ended(client, started, deadline)["status"]
                ends[status["status_str"]] += 1
                faults += [f"{case.name}: {fault}" for fault in [fault_of_end(status)] if fault]
        assert client.get("/system_stats").status_code == 200
    faults += [f"written outside: {path}" for path in sorted(written_files(host) - before)]
    faults += [f"changed outside: {path}" for path in sorted(before - written_files(host))]
    print(f"{len(cases)} inputs: {dict(ends)}")
    assert not faults, f"{len(faults)} of {len(cases)}:\n" + "\n".join(fault[:600] for fault in faults)
    return ends


def queue(client: httpx.Client, graph: Graph) -> tuple[dict[str, Any] | None, str | None]:
    """What the host refuses a graph with, or the id under which it runs. NaN and halves of characters are
    sent as they are."""
    body = json.dumps({"prompt": graph, "client_id": "tests"})
    answer = client.post("/prompt", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400), f"{answer.status_code}: {answer.text[:300]}"
    sent = answer.json()
    return (None, sent["prompt_id"]) if answer.status_code == 200 else (sent, None)


def ended(client: httpx.Client, prompt_id: str, deadline: float) -> Any:
    """The history of a prompt once it has ended, None if it does not in time."""
    while time.monotonic() < deadline:
        if entry := client.get(f"/history/{prompt_id}").json().get(prompt_id):
            return entry
        time.sleep(0.02)
    return None


def fault_of_refusal(refusal: dict[str, Any]) -> str:
    """What is wrong with how an input was refused; empty for a line that says what and where."""
    found = [error for of_node in refusal["node_errors"].values() for error in of_node["errors"]]
    if not found:
        return f"refused without a node: {refusal['error']}"
    for error in found:
        words = f"{error['message']}: {error['details']}"
        if error["type"].startswith("exception") or "Traceback" in words:
            return f"an exception while it was looked at: {words}"
        if error["type"] == "custom_validation_failed" and unclear(error["details"]):
            return f"unclear: {unclear(error['details'])}: {error['details']!r:.300}"
    return ""


def fault_of_end(status: dict[str, Any]) -> str:
    """What is wrong with how a prompt ended; empty for success and for one line of an error of the pack."""
    if status["status_str"] == "success":
        return ""
    error = next(body for kind, body in status["messages"] if kind == "execution_error")
    message = error["exception_message"].strip()
    if OURS not in error["exception_type"]:
        return f"{error['exception_type']} in {error['node_type']}: {message!r:.300}"
    wrong = unclear(message)
    return f"{wrong}: {message!r:.300}" if wrong else ""


def unclear(message: str) -> str:
    """Why a message is no clear line; empty if it is one."""
    if not message or "Traceback" in message:
        return "says nothing" if not message else "a traceback"
    if not message.isprintable() and any(ord(sign) < 32 or "\ud800" <= sign <= "\udfff" for sign in message):
        return "more than a line, or control characters"
    return "too long" if len(message) > LONGEST_LINE else ""


def written_files(host: ComfyServer) -> set[tuple[str, int]]:
    """Every file (and its size) in and around the base directory that the host has no business in, and all
    escapes."""
    found: set[tuple[str, int]] = set()
    for folder, folders, files in os.walk(host.base.parent):
        folders[:] = [name for name in folders if name not in OWN_FOLDERS]
        paths = [
            Path(folder, name) for name in (*files, *folders) if not name.startswith(("host.log", "host.db"))
        ]
        found |= {(str(path), 0 if path.is_dir() else path.lstat().st_size) for path in paths}
    for place in (Path("/tmp"), Path.home(), host.home.folder, ROOT, Path("/")):
        found |= {(str(path), 0) for path in place.glob(f"*{MARK}*")}
    return found


@pytest.fixture(scope="module")
def story_name(host: ComfyServer) -> Iterator[str]:
    folder = host.base / "input" / "hostile-good"
    save_trajectory(make_trajectory(3, request="Hostile"), folder)
    yield "input/hostile-good"
    shutil.rmtree(folder)


def test_every_widget_of_every_node(host: ComfyServer, story_name: str) -> None:
    with image_service() as service:
        cases = list(widgets(host.get("/object_info"), story_name, service.url))
        ends = drive(host, cases)
    assert len(cases) >= 300 and ends["refused"] >= 100


def test_plan_texts(host: ComfyServer) -> None:
    typed = [Hostile("plan", f"{text!r:.60}", by_hand(text)) for text in PLAN_TEXTS]
    wired = []
    for text in PLAN_TEXTS[::4]:
        graph = by_hand("") | {"wire": node("PrimitiveString", value=text)}
        graph["edit"]["inputs"]["edits"] = ["wire", 0]
        wired.append(Hostile("plan", f"<- {text!r:.60}", graph))
    asked = [
        Hostile("plan", f"request {text!r:.60}", by_hand("1. a", request=text))
        for text in ("", "\x00", LONG, "\ud800", f"../{MARK}")
    ]
    drive(host, typed + wired + asked)


def test_folders_of_stories(host: ComfyServer, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    parent = host.base / "input" / "hostile"
    try:
        names = make_folders(parent, make_trajectory(3, request="Spoiled"), outside)
        ends = drive(host, [Hostile("folder", name, shown(f"input/hostile/{name}")) for name in names])
    finally:
        shutil.rmtree(parent)
    assert outside.read_text() == "{}" and ends["error"] + ends["refused"] >= 50


def test_replies_of_agents(host: ComfyServer) -> None:
    cases = [
        Hostile("reply", f"planner {text!r:.60}", planning(agent(json.dumps([text] * 3))))
        for text in PLANNER_REPLIES
    ]
    for index, text in enumerate(CRITIC_REPLIES):
        replies = agent(json.dumps([text] * 4))
        cases.append(Hostile("reply", f"judge {text!r:.60}", judging(replies)))
        if index % 4 == 0:
            cases.append(Hostile("reply", f"loop {text!r:.60}", looping(replies, f"hostile critic {index}")))
    cases += [Hostile("reply", f"script {text:.60}", judging(agent(text))) for text in SCRIPTS]
    drive(host, cases)


def event(text: str) -> bytes:
    return f"data: {json.dumps({'choices': [{'delta': {'content': text}}]})}\n\n".encode()


def whole(body: Any) -> bytes:
    return json.dumps(body).encode()


SSE, JSON = "text/event-stream", "application/json"
SERVED: dict[str, tuple[str, Callable[[], Iterator[bytes]]]] = {
    "endless-words": (SSE, lambda: itertools.repeat(event("so " * 400))),
    "endless-line": (SSE, lambda: itertools.repeat(b"data: " + b"x" * 65536)),
    "endless-events": (SSE, lambda: itertools.repeat(b": nothing\n" * 6000)),
    "endless-body": (JSON, lambda: itertools.repeat(b" " * 65536)),
    "nothing": (JSON, lambda: iter([])),
    "page": ("text/html", lambda: iter([b"<html><body>Log in</body></html>"])),
    "half": (JSON, lambda: iter([b'{"choices": ['])),
    "kinds": (JSON, lambda: iter([whole({"choices": [{"message": {"content": {"a": 1}}}]})])),
    "choices": (JSON, lambda: iter([whole({"choices": "none"})])),
    "no-numbers": (SSE, lambda: iter([b'data: {"usage": {"completion_tokens": NaN}}\n\n'])),
    "deep": (JSON, lambda: iter([b"[" * 1_000_000])),
    "zipped": ("gzip", lambda: iter([gzip.compress(b" " * 60_000_000, 1)])),
    "silent-end": (SSE, lambda: iter([event("<think>"), b"data: [DONE]\n\n"])),
    "error": (SSE, lambda: iter([b'data: {"error": {"message": "a\\nb\\u0000c' + b"d" * 9000 + b'"}}\n\n'])),
    "good": (JSON, lambda: iter([whole({"choices": [{"message": {"content": said(True)}}]})])),
}


class _Hostile(BaseHTTPRequestHandler):
    """Says under /NAME/v1 what SERVED has for it, until the other side hangs up."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        kind, parts = SERVED[self.path.split("/")[1]]
        self.send_response(200)
        self.send_header("content-type", JSON if kind == "gzip" else kind)
        if kind == "gzip":
            self.send_header("content-encoding", "gzip")
        self.end_headers()
        try:
            for part in parts():
                self.wfile.write(part)
        except OSError:
            return

    def log_message(self, format: str, *args: object) -> None:
        return


def test_servers_of_agents(host: ComfyServer) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hostile)
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        cases = [
            Hostile(
                "server",
                name,
                judging(
                    node(
                        "InterleaveRemoteAgent",
                        base_url=f"http://127.0.0.1:{server.server_port}/{name}/v1",
                        model="m", key_variable="",
                    )
                ),
            )
            for name in SERVED
        ]  # fmt: skip
        ends = drive(host, cases)
    finally:
        server.shutdown()
        server.server_close()
    assert ends["success"] == 1
