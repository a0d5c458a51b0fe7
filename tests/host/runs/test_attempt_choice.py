"""Attempt End uses an attempt chosen by the user with the next prompt, without generating again."""

from __future__ import annotations

import json
from pathlib import Path

from ..graphs.attempt_pairs import pair, with_body
from ..graphs.replies import verdicts
from ..server.comfy_server import ComfyServer
from ..server.runs import ROUTE, journals, ran_in


def test_a_picked_attempt_is_used_without_generating(host: ComfyServer) -> None:
    graph = pair("picked between", 2)
    first = host.run(graph)
    assert "> attempt 2" in first["text"]["text"][0] and first["accepted"]["text"] == ["True"]
    (folder,) = journals(host, "picked between")
    painted = ran_in(host).count("paint")
    refused = first_try(folder)
    answer = host.post(f"{ROUTE}/choice", {"run": folder.name, "step": 1, "picture": refused})
    assert answer.status_code == 200
    second = host.run(graph)
    assert "Attempt 1 picked by hand" in second["text"]["text"][0]
    assert second["final"]["text"] == ["picked between"], "nodes that depend on it run again"
    assert [image["filename"] for image in second["close"]["images"]] == [f"{refused}.png"]
    assert host.post(f"{ROUTE}/choice", {"run": folder.name, "step": 1, "picture": None}).status_code == 200
    graph = with_body(graph, "agent", replies=json.dumps(verdicts(2)))
    assert "> attempt 2" in host.run(graph)["text"]["text"][0]
    assert ran_in(host).count("paint") == painted


def first_try(folder: Path) -> str:
    trajectory = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))
    return trajectory["results"][0]["attempts"][0]["image"]
