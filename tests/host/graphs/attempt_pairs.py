"""Graphs with Attempt Start and Attempt End around nodes that log when they run, and their rig."""

from __future__ import annotations

import json
from typing import Any

from .klein import Graph, node
from .replies import verdicts

CACHES = ("classic", "lru", "ram", "none")


def pair(
    prompt: Any,
    accepted_at: int | None,
    max_attempts: int = 5,
    preview: bool = False,
    replies: list[Any] | None = None,
    **open_inputs: Any,
) -> Graph:
    """Return checkpoint, sampler and tint between the pair "open" and "close"; "out" saves the result."""
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
            image="@tint", opened="@open", critic="@agent", max_attempts=max_attempts, accept_at=0.0,
            keep="best",
        ),
        "out": node("PreviewImage", images="@close"),
        "attempts": node("PreviewImage", images=["close", 3]),
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
    """Return how often the checkpoint loader, the sampler and the tint node ran."""
    words = [line.split()[0] for line in answer["ran"]]
    return words.count("load"), words.count("paint"), words.count("tint")
