"""A Critic Loop that pauses for the user in the real host: it ends, waits, and continues after a decision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from ..graphs.klein import node
from ..graphs.pauses import paused, reasons
from ..graphs.replies import reply
from ..server.comfy_server import ComfyServer
from ..server.runs import ROUTE, journals


def decided(host: ComfyServer, folder: Path, **decision: Any) -> httpx.Response:
    """Decide about what the run waits for."""
    waiting = state(host, folder)[0].get("waiting", {"step": None, "digest": None})
    return host.post(f"{ROUTE}/decision", {"run": folder.name, **waiting, **decision})


def state(host: ComfyServer, folder: Path) -> tuple[dict[str, Any], bool]:
    """Return the message about the whole run, and whether the user has decided."""
    answer = httpx.get(f"{host.url}{ROUTE}/run", params={"run": folder.name}).json()
    (run,) = [one["shown"] for one in answer["messages"] if one["shown"]["kind"] == "run"]
    return run, answer["decided"]


def test_every_step_waits_until_it_is_decided(host: ComfyServer) -> None:
    graph = paused("approved step by step", "every step")
    first = host.run(graph)
    (folder,) = journals(host, "approved step by step")
    assert len(first["loop"]["images"]) == 1 and reasons(folder) == ["accepted"]
    run, is_decided = state(host, folder)
    (image,) = [path.stem for path in (folder / "pictures").glob("*.png")]
    assert run["waiting"] == {"step": 1, "digest": image} and not is_decided
    assert run["status"] == "incomplete"
    for other in ({"step": 2}, {"digest": "0" * 40}, {"step": None}):
        refused = decided(host, folder, **other)
        assert refused.status_code == 400 and "about step 1, which was not shown" in refused.json()["error"]
    host.run(graph)
    assert reasons(folder) == ["accepted"], "queued again without a decision it still waits"
    answer = decided(host, folder)
    assert answer.status_code == 200 and answer.json()["decided"], answer.text
    host.run(graph)
    assert reasons(folder) == ["picked", "accepted"]
    assert decided(host, folder, skip=True).status_code == 200
    done = host.run(graph)
    assert reasons(folder) == ["picked", "skipped"] and len(done["loop"]["images"]) == 1
    run, is_decided = state(host, folder)
    assert "waiting" not in run and is_decided and run["status"] == "finished"
    refused = decided(host, folder)
    assert refused.status_code == 400 and "does not wait" in refused.json()["error"]
    assert decided(host, folder, run="../../input").status_code == 400


def test_only_a_rejected_step_waits(host: ComfyServer) -> None:
    graph = paused("approved if rejected", "at rejected steps", True, False, False)
    host.run(graph)
    (folder,) = journals(host, "approved if rejected")
    assert reasons(folder) == ["accepted", "tries used up"]
    assert state(host, folder)[0]["waiting"]["step"] == 2
    assert decided(host, folder).status_code == 200
    host.run(graph)
    assert reasons(folder) == ["accepted", "picked"]


def test_a_planners_plan_waits_without_an_image(host: ComfyServer) -> None:
    graph = paused("approved plan", "after the plan")
    graph["agent"] = node("InterleaveTestAgent", replies=json.dumps([reply("a house", "a tree")]))
    graph["plan"] = node("InterleavePlanner", agent="@agent", request="approved plan")
    first = host.run(graph)
    (folder,) = journals(host, "approved plan")
    assert reasons(folder) == [] and not (folder / "attempts").exists()
    assert "out" not in first and "board" in first
    waiting = state(host, folder)[0]["waiting"]
    assert waiting["step"] is None and waiting["digest"]
    assert decided(host, folder, skip=True).status_code == 400
    assert decided(host, folder).status_code == 200
    done = host.run(graph)
    assert reasons(folder) == ["accepted", "accepted"] and len(done["out"]["images"]) == 2
