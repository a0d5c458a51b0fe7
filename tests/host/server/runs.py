"""Results and errors of prompts, files of runs, and how a cancel ends a prompt."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from random import randrange
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ..graphs.stories import Graph, node
from .comfy_server import ComfyServer, HostError

AT_ONCE = 30.0
"""Seconds until another prompt must have been answered after a cancel: well under one on an idle machine, but
these tests share theirs. The cancelled runs would take minutes."""
PHOTO_SIZE = (128, 128)
PHOTOS = ("family-21.png", "family-22.png", "family-23.png")
"""Images in the input folder of every server; see the fixture `host`."""


def text_of(outputs: dict[str, Any], name: str = "text") -> str:
    """The text that a preview shows."""
    return outputs[name]["text"][0]


def failure(host: ComfyServer, graph: Graph, words: str) -> HostError:
    """Assert that a graph fails with one line that matches `words`, and return the error."""
    with pytest.raises(HostError) as raised:
        host.run(graph)
    said = str(raised.value)
    assert re.search(words, said) and "Traceback" not in said, said
    if not said.startswith("The host refused"):
        assert len(said.strip().splitlines()) == 1, said
    return raised.value


def refusal(host: ComfyServer, graph: Graph, name: str, words: str) -> None:
    """Assert that the host rejects a graph before anything runs, with one line at one input."""
    with pytest.raises(HostError) as refused:
        host.queue(graph)
    nodes = json.loads(refused.value.details)["node_errors"].values()
    ((given, details),) = [
        (one["extra_info"]["input_name"], one["details"]) for each in nodes for one in each["errors"]
    ]
    assert given == name and re.search(words, details) and "\n" not in details.strip(), details


def on_a_wire(graph: Graph, key: str, name: str) -> Graph:
    """The graph with the text of one input on a wire, where the host does not look at it."""
    value = graph[key]["inputs"][name]
    wired = {**graph[key], "inputs": {**graph[key]["inputs"], name: ["wire", 0]}}
    return {**graph, key: wired, "wire": node("PrimitiveString", value=value)}


def journals(host: ComfyServer, request: str) -> list[Path]:
    """Return the run folders of a request.

    All test files share the server, so a request whose folders are counted belongs to one test.
    """
    name = f"{request.replace(' ', '-')}-??????????"
    runs = host.base / "output" / "interleave-thinker"
    return [*runs.glob(name), *runs.glob(f"{name}-seed-*")]


def journal(host: ComfyServer, request: str) -> Path:
    """Return the only run folder of a request."""
    (folder,) = journals(host, request)
    return folder


def trajectory(folder: Path) -> dict[str, Any]:
    """Return the record of a run."""
    return json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))


def results(folder: Path) -> list[dict[str, Any]]:
    """Return the results of the steps of a run."""
    return trajectory(folder)["results"]


def reasons(folder: Path) -> list[str]:
    """Return how each step of a run ended."""
    return [one["stop_reason"] for one in results(folder)]


def made(host: ComfyServer, request: str, kind: str = "") -> dict[str, int]:
    """Every record of a run (of one kind) with the time at which it was written."""
    return {
        f"{path.parent.name}/{path.name}": path.stat().st_mtime_ns
        for folder in journals(host, request)
        for one in ("attempts", "verdicts", "pictures")
        if one.startswith(kind)
        for path in folder.glob(f"{one}/[0-9a-f]*")
    }


def ran_in(host: ComfyServer) -> list[str]:
    """Return what the test nodes wrote down when they ran."""
    path: Path = host.base / "output" / "test-nodes-that-ran.txt"
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


def executed(entry: dict[str, Any]) -> set[str]:
    """Nodes of a prompt that really ran."""
    cached = next(body["nodes"] for kind, body in entry["status"]["messages"] if kind == "execution_cached")
    return set(entry["prompt"][2]) - set(cached)


def wait_until(host: ComfyServer, true: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, host.log_tail()
        time.sleep(0.02)


def started_running(host: ComfyServer, graph: Graph, moment: float = 0.7) -> str:
    """Queue a graph, and return its id when it has been running for a moment."""
    started = host.queue(graph)
    wait_until(host, lambda: host.get("/queue")["queue_running"])
    time.sleep(moment)
    return started


def answers_at_once(host: ComfyServer, started: str) -> None:
    """Cancel a running prompt; another one must then be answered without delay."""
    assert host.post("/interrupt").status_code == 200
    other = {"image": node("EmptyImage", width=16, height=16, batch_size=1, color=randrange(256))}
    host.run(other | {"out": node("PreviewImage", images="@image")}, AT_ONCE)
    entry = host.wait(started)
    assert [kind for kind, _ in entry["status"]["messages"]][-1] == "execution_interrupted"


# Images


def pixels(host: ComfyServer, outputs: dict[str, Any], node: str = "out", index: int = 0) -> np.ndarray:
    """An image of the outputs."""
    return np.asarray(host.image(outputs[node]["images"][index]).convert("RGB"))


def same(host: ComfyServer, mine: Graph, theirs: Graph) -> np.ndarray:
    """Assert that both graphs generate the same pixels, and return them."""
    drawn = pixels(host, host.run(mine))
    np.testing.assert_array_equal(drawn, pixels(host, host.run(theirs)))
    return drawn


def differ(host: ComfyServer, drawn: np.ndarray, other: Graph, least: float = 0.001) -> None:
    """Assert that another graph generates other pixels, by more than `least` of 255 on average."""
    again = pixels(host, host.run(other))
    assert again.shape != drawn.shape or np.abs(again.astype(int) - drawn).mean() > least


def photograph(size: tuple[int, int], seed: int) -> Image.Image:
    """An image with content at every scale, so that a shift by a pixel or a wrong crop shows."""
    noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    ramp = np.linspace(0, 255, size[0], dtype=np.uint8)[None, :, None]
    return Image.fromarray((noise // 2 + ramp // 2).astype(np.uint8))


def families(host: ComfyServer) -> list[str]:
    """The model families of the shim pack whose classes this host has."""
    return host.inputs_of("InterleaveTestFamily")["family"][0]


def need_family(host: ComfyServer, name: str) -> None:
    """Skip where the host has no such family."""
    if name not in families(host):
        pytest.skip(f"This host does not know {name}.")
