"""Graphs with a pair of Try Open and Try Close around nodes that write down when they run, and the rig to run
them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from .comfy_server import PACK, ROOT, HostHome
from .klein_graphs import Graph, node

CACHES = ("classic", "lru", "ram", "none")


def verdict(success: bool, refined: str = "", probability: float | None = None) -> dict[str, Any]:
    """A critic's reply for the scripted agent."""
    answer = json.dumps({"previous_step_success": success, "refine_prompt": refined})
    text = f"<think>looked</think><answer>{answer}</answer>"
    return {"text": text, "tokens": 9, "probability": probability}


def verdicts(accepted_at: int | None, tries: int = 9) -> list[dict[str, Any]]:
    """Replies that refuse every try with a better prompt, and accept the given one (1-based)."""
    return [
        verdict(number == accepted_at, f"better {number}", 0.9 if number == accepted_at else 0.1 * number)
        for number in range(1, tries + 1)
    ]


def pair(
    prompt: str,
    accepted_at: int | None,
    max_attempts: int = 5,
    preview: bool = False,
    replies: list[Any] | None = None,
    **open_inputs: Any,
) -> Graph:
    """A checkpoint, a sampler and a tint between Try Open "open" and Try Close "close"; "out" saves the
    result."""
    graph = {
        "agent": node("InterleaveTestAgent", replies=json.dumps(replies or verdicts(accepted_at))),
        "loader": node("InterleaveTestLoader", name="model"),
        "open": node("InterleaveTryOpen", prompt=prompt, **{"step": 0, "seed": 7, **open_inputs}),
        "paint": node(
            "InterleaveTestPaint", model="@loader", prompt=["open", 1], seed=["open", 2], batch=1, seconds=0.0
        ),
        "tint": node("InterleaveTestTint", image="@paint", strength=0.5),
        "close": node(
            "InterleaveTryClose",
            image="@tint", opened="@open", critic="@agent", max_attempts=max_attempts, accept_at=0.0, keep="best",
        ),
        "out": node("PreviewImage", images="@close"),
        "tries": node("PreviewImage", images=["close", 3]),
        "text": node("PreviewAny", source=["close", 1]),
        "accepted": node("PreviewAny", source=["close", 2]),
        "final": node("PreviewAny", source=["close", 4]),
    }  # fmt: skip
    if preview:
        graph["preview"] = node("PreviewImage", images="@tint")
    return graph


def with_body(graph: Graph, which: str, /, **inputs: Any) -> Graph:
    """The graph with other inputs at one node."""
    return {**graph, which: {**graph[which], "inputs": {**graph[which]["inputs"], **inputs}}}


def without(graph: Graph, which: str, name: str) -> Graph:
    """The graph with one input of a node left unconnected."""
    inputs = {key: value for key, value in graph[which]["inputs"].items() if key != name}
    return {**graph, which: {**graph[which], "inputs": inputs}}


def count(answer: dict[str, Any]) -> tuple[int, int, int]:
    """How often the checkpoint, the sampler and the tint ran."""
    words = [line.split()[0] for line in answer["ran"]]
    return words.count("load"), words.count("paint"), words.count("tint")


def run_in_rig(
    home: HostHome, folder: Path, scenarios: dict[str, dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """The answers of `cache_rig.py` by scenario."""
    base = folder / "base"
    packs = base / "custom_nodes"
    packs.mkdir(parents=True)
    (packs / PACK).symlink_to(ROOT, target_is_directory=True)
    shutil.copytree(Path(__file__).parent / "shim_pack", packs / "zz_tiny_weights")
    for name in ("output", "input", "temp", "user"):
        (base / name).mkdir()
    source, target = folder / "scenarios.json", folder / "results.json"
    source.write_text(json.dumps(list(scenarios.values())))
    command = [
        str(home.python), str(Path(__file__).parent / "cache_rig.py"), str(source), str(target), str(home.folder),
        "--cpu", "--base-directory", str(base), "--disable-api-nodes",
        "--database-url", f"sqlite:///{base / 'host.db'}",
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        command, cwd=home.folder, env=environment, capture_output=True, text=True, timeout=1800
    )
    assert target.exists(), f"{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    (folder / "rig.log").write_text(done.stdout + done.stderr)
    return dict(zip(scenarios, json.loads(target.read_text()), strict=True))
