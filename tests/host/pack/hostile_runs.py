"""Sends hostile graphs and requests to the real host, each graph followed by a good one; reports failures."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
from support.stories import make_trajectory

from interleave_thinker.backend.story.journal.copy import save_trajectory

from ..graphs.stories import Graph, edited, loaders
from ..server.comfy_server import ROOT, ROUTE, ComfyServer
from .hostile_graphs import MARK, Asked, Hostile

OURS = "interleave_thinker."
"""Part of the full name of every error class of the pack, and of no other."""
MAX_LINE = 2000
SECONDS = 240.0
OWN_FOLDERS = ("output", "temp", "user", "__pycache__")
"""Folders that the host writes into; `user` holds its settings."""

numbers = itertools.count(1)


def drive(host: ComfyServer, cases: list[Hostile]) -> Counter[str]:
    """Queue every case with a good prompt behind it, and return how they ended.

    Fails for all that ended badly. Every prompt contains the loaders, connected or not, so that the host
    keeps what they loaded.
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
            good_refusal, good = queue(client, loaders() | edited(f"1. good {next(numbers)}"))
            assert good is not None, f"after {case.name}: {good_refusal}"
            queued.append((case, started, good))
        deadline = time.monotonic() + SECONDS + len(cases)
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
    """Return the host's error for a graph, or the id under which it runs.

    NaN and lone surrogates are sent unchanged.
    """
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
    """Return what is wrong with the error for a rejected input; empty if one line names fault and place."""
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
    """Return what is wrong with how a prompt ended; empty for success and one line of the pack."""
    if status["status_str"] == "success":
        return ""
    error = next(body for kind, body in status["messages"] if kind == "execution_error")
    message = error["exception_message"].strip()
    if OURS not in error["exception_type"]:
        return f"{error['exception_type']} in {error['node_type']}: {message!r:.300}"
    wrong = unclear(message)
    return f"{wrong}: {message!r:.300}" if wrong else ""


def unclear(message: str) -> str:
    """Return why a message is not one clear line; empty if it is one."""
    if not message or "Traceback" in message:
        return "says nothing" if not message else "a traceback"
    if not message.isprintable() and any(ord(sign) < 32 or "\ud800" <= sign <= "\udfff" for sign in message):
        return "more than a line, or control characters"
    return "too long" if len(message) > MAX_LINE else ""


def written_files(host: ComfyServer) -> set[tuple[str, int]]:
    """Return every file, with its size, that the host must not touch, and all escapes."""
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


def a_run(host: ComfyServer) -> tuple[str, str]:
    """Return the name of a finished run in the host's output folder, and the digest of one of its images."""
    folder = host.base / "output" / "interleave-thinker" / "hostile-run-abcd1234"
    if not folder.exists():
        save_trajectory(make_trajectory(3, request="Hostile"), folder)
    return folder.name, next((folder / "pictures").iterdir()).stem


def fault_of_answer(client: httpx.Client, asked: Asked) -> str:
    """Return what is wrong with the response; empty for a normal one or a one-line error."""
    path = f"{ROUTE}/{asked.route}"
    if asked.query is not None:
        answer = client.get(path, params=asked.query)
    else:
        answer = client.post(path, content=asked.body, headers={"Content-Type": "application/json"})
    if answer.status_code == 200:
        return "" if isinstance(answer.json(), dict) else "an answer that is not an object"
    of_the_host = answer.status_code == 400 and "json" not in answer.headers["content-type"]
    if answer.status_code in (413, 414) or of_the_host:
        # The server itself finds the request too long.
        return "" if len(answer.text) < 2000 and "Traceback" not in answer.text else "a long refusal"
    if answer.status_code not in (400, 404):
        return f"status {answer.status_code}: {answer.text[:200]}"
    words = answer.json().get("error", "")
    return "" if words and words.isprintable() and len(words) < 2000 else f"unclear: {words[:200]!r}"
