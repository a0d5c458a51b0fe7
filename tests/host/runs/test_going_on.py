"""Queue again after no change, a change, a cancel or a crash: only what is missing is generated."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from support.host_home import HostHome

from ..graphs.klein import Graph, story
from ..graphs.replies import verdict
from ..server.comfy_server import ComfyServer, HostError
from ..server.runs import answers_at_once, journals, made, wait_until

SIZE = (64, 64)


def ran(entry: dict[str, Any]) -> set[str]:
    cached = next(body["nodes"] for kind, body in entry["status"]["messages"] if kind == "execution_cached")
    return set(entry["prompt"][2]) - set(cached)


def critical(request: str, prompts: list[str], replies: int, slow: float = 0.0, **settings: Any) -> Graph:
    script = json.dumps([verdict(True)] * replies)
    graph = story(request, prompts, SIZE, critic=script, max_attempts=3, **settings)
    graph["critic"]["inputs"]["seconds_per_word"] = slow
    return graph


def test_an_unchanged_graph_runs_nothing(host: ComfyServer) -> None:
    graph = critical("unchanged", ["a", "b"], 2)
    host.run(graph)
    assert ran(host.wait(host.queue(graph))) == set()


def test_a_changed_step_regenerates_from_there_on(host: ComfyServer) -> None:
    prompts = ["a", "b", "c", "d", "e"]
    # Two verdicts are left to the critic after the first run: steps 1 to 3 must not ask again.
    host.run(critical("changed step", prompts, 7))
    before = made(host, "changed step")
    prompts[3] = "another d"
    host.run(critical("changed step", prompts, 7))
    after = made(host, "changed step")
    assert before.items() <= after.items()
    for kind in ("attempts", "verdicts", "pictures"):
        assert len([name for name in after.keys() - before.keys() if name.startswith(kind)]) == 2


def test_cancel_while_sampling(host: ComfyServer) -> None:
    graph = story("stopped sampling", [f"picture {number}" for number in range(30)], SIZE, steps=100)
    started = host.queue(graph)
    wait_until(host, lambda: any(name.startswith("pictures") for name in made(host, "stopped sampling")))
    answers_at_once(host, started)
    before = made(host, "stopped sampling")
    finished = len([name for name in before if name.startswith("pictures")])
    prompts = [f"picture {number}" for number in range(finished + 1)]
    outputs = host.run(story("stopped sampling", prompts, SIZE, steps=100))
    after = made(host, "stopped sampling")
    assert before.items() <= after.items() and len(outputs["out"]["images"]) == finished + 1


def test_cancel_while_judging(host: ComfyServer) -> None:
    graph = critical("stopped judging", ["a", "b"], 2, slow=0.2)
    graph["critic"]["inputs"]["replies"] = graph["critic"]["inputs"]["replies"].replace("looked", "so " * 200)
    started = host.queue(graph)
    wait_until(host, lambda: len(made(host, "stopped judging")) >= 2)
    time.sleep(0.5)
    answers_at_once(host, started)
    before = made(host, "stopped judging")
    assert not any(name.startswith("verdicts") for name in before)
    (folder,) = journals(host, "stopped judging")
    ended = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))
    assert ended["results"][-1]["stop_reason"] == "cancelled"
    host.run(critical("stopped judging", ["a", "b"], 2))
    after = made(host, "stopped judging")
    assert before.items() <= after.items()
    assert len([name for name in after if name.startswith("attempts")]) == 2


def test_a_killed_server_resumes(host_home: HostHome, tmp_path: Path) -> None:
    """No word and no image that was finished before a SIGKILL is made again by the next server."""
    server = ComfyServer(host_home, tmp_path / "base")
    graph = critical("killed", [f"picture {number}" for number in range(5)], 5, steps=25)
    try:
        server.start()
        server.queue(graph)
        wait_until(server, lambda: sum(name.startswith("verdicts") for name in made(server, "killed")) >= 1)
        server.kill()
        before = made(server, "killed")
        finished = sum(name.startswith("verdicts") for name in before)
        assert 1 <= finished < 5
        server.start()
        server.run(graph)
        assert before.items() <= made(server, "killed").items()
    finally:
        server.stop()


def attempts_of(host: ComfyServer, request: str) -> dict[str, Any]:
    return {name: when for name, when in made(host, request).items() if name.startswith("attempts")}


def test_a_critic_that_fails_stops_the_loop_and_its_images_are_judged_later(host: ComfyServer) -> None:
    with pytest.raises(HostError, match=r"Two judgements in a row failed.*has 1 replies.*images are saved"):
        host.run(critical("failing critic", ["a", "b"], 1))
    before = attempts_of(host, "failing critic")
    assert len(before) == 3, "one of the first step and two of the next"
    host.run(critical("failing critic", ["a", "b"], 3))
    assert attempts_of(host, "failing critic") == before, "no image was generated again"
