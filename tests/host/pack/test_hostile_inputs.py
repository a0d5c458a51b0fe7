"""Hundreds of hostile inputs in the real host: it survives, reports one line, and writes nowhere else."""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from support.image_service import image_service
from support.stories import make_trajectory

from ..graphs.klein import node
from ..server.comfy_server import ComfyServer
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
from .hostile_runs import drive


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
