"""Hundreds of hostile inputs in the real host: it survives, reports one line, and writes nowhere else.

tests/stress/test_hostile_inputs.py has all sockets.
"""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
from support.image_service import image_service
from support.stories import make_trajectory

from interleave_thinker.backend.story.journal.copy import save_trajectory

from ..graphs.stories import node
from ..server.comfy_server import ComfyServer
from .hostile_folders import make_folders
from .hostile_graphs import (
    Hostile,
    judging,
    loaded_story,
    plan_texts,
    replies,
    requests,
    said,
    sockets,
    widgets,
)
from .hostile_runs import a_run, drive, fault_of_answer

SHARE = 13
"""Every 13th socket is run. A socket does not have 13 values, so each one is tested with other values."""


@pytest.fixture(scope="module")
def story_name(host: ComfyServer) -> Iterator[str]:
    """A valid story for Load Story."""
    folder = host.base / "input" / "hostile-good"
    save_trajectory(make_trajectory(3, request="Hostile"), folder)
    yield "input/hostile-good"
    shutil.rmtree(folder)


def test_every_widget_of_every_node(host: ComfyServer, story_name: str) -> None:
    with image_service() as service:
        cases = list(widgets(host.get("/object_info"), story_name, service.url))
        ends = drive(host, cases)
    assert len(cases) >= 300 and ends["refused"] >= 100


def test_every_socket_of_every_node(host: ComfyServer, story_name: str) -> None:
    with image_service() as service:
        cases = list(sockets(host.get("/object_info"), story_name, service.url))
        ends = drive(host, cases[::SHARE])
    assert len(cases) >= 1900 and ends["error"] >= len(cases) // SHARE // 2


def test_plan_texts_and_replies_of_agents(host: ComfyServer) -> None:
    drive(host, [*plan_texts(), *replies()])


def test_folders_of_stories(host: ComfyServer, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    parent = host.base / "input" / "hostile"
    try:
        names = make_folders(parent, make_trajectory(3, request="Spoiled"), outside)
        ends = drive(host, [Hostile(name, loaded_story(f"input/hostile/{name}")) for name in names])
    finally:
        shutil.rmtree(parent)
    assert outside.read_text() == "{}" and ends["error"] + ends["refused"] >= 30


def test_requests_get_clear_answers(host: ComfyServer) -> None:
    run, picture = a_run(host)
    with httpx.Client(base_url=host.url, timeout=60) as client:
        asked = list(requests(run, picture))
        faults = [f"{one.name}: {fault}" for one in asked if (fault := fault_of_answer(client, one))]
    assert len(asked) >= 300 and not faults, "\n".join(faults)


def event(text: str) -> bytes:
    return f"data: {json.dumps({'choices': [{'delta': {'content': text}}]})}\n\n".encode()


def message(content: object) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}}]}).encode()


SSE, JSON = "text/event-stream", "application/json"
SERVED: dict[str, tuple[str, Callable[[], Iterator[bytes]]]] = {
    "endless-words": (SSE, lambda: itertools.repeat(event("so " * 400))),
    "endless-line": (SSE, lambda: itertools.repeat(b"data: " + b"x" * 65536)),
    "endless-body": (JSON, lambda: itertools.repeat(b" " * 65536)),
    "page": ("text/html", lambda: iter([b"<html><body>Log in</body></html>"])),
    "half": (JSON, lambda: iter([b'{"choices": ['])),
    "kinds": (JSON, lambda: iter([message({"a": 1})])),
    "zipped": ("gzip", lambda: iter([gzip.compress(b" " * 60_000_000, 1)])),
    "error": (SSE, lambda: iter([b'data: {"error": {"message": "a\\nb\\u0000c' + b"d" * 9000 + b'"}}\n\n'])),
    "good": (JSON, lambda: iter([message(said(True))])),
}


class _Hostile(BaseHTTPRequestHandler):
    """Sends under /NAME/v1 the content of SERVED until the client disconnects."""

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
    url = f"http://127.0.0.1:{server.server_port}"

    def agent(name: str) -> dict[str, object]:
        return node("InterleaveRemoteAgent", base_url=f"{url}/{name}/v1", model="m", key_variable="")

    try:
        ends = drive(host, [Hostile(name, judging(agent(name))) for name in SERVED])
    finally:
        server.shutdown()
        server.server_close()
    assert ends["success"] == 1
