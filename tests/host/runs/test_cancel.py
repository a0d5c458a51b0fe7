"""Cancel while an agent plans, the sampler runs or the critic judges: server, memory and journal."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from ..graphs.klein import Graph, story
from ..graphs.plans import planned, text_of
from ..graphs.replies import reply, verdict
from ..server.comfy_server import ComfyServer
from ..server.runs import answers_at_once, made, wait_until

SIZE = (64, 64)
CANCELS = 3
SLACK = 150_000_000
"""Bytes by which the server may be larger after further cancels: an allocator keeps some. A run that stayed
in memory with its models and pictures at each of them would be seen."""


def memory_of(host: ComfyServer) -> int:
    """Resident bytes of the server."""
    with open(f"/proc/{host.pid}/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def freed(host: ComfyServer) -> int:
    """The server's size after its button for giving memory back."""
    host.post("/free", {"unload_models": True, "free_memory": True})
    time.sleep(0.5)
    return memory_of(host)


def is_running(host: ComfyServer) -> bool:
    """Whether a prompt has been running for a moment."""
    running = bool(host.get("/queue")["queue_running"])
    time.sleep(0.7)
    return running


def planning(turn: int) -> tuple[Graph, Callable[[ComfyServer], Any]]:
    graph = planned(reply(*["word " * 200] * 5), request=f"cancelled plan {turn}", seconds=0.02)
    return graph, is_running


def sampling(turn: int) -> tuple[Graph, Callable[[ComfyServer], Any]]:
    request = f"cancelled sampling {turn}"
    graph = story(request, [f"picture {number}" for number in range(30)], SIZE, steps=100)
    return graph, lambda host: any(name.startswith("pictures") for name in made(host, request))


def judging(turn: int) -> tuple[Graph, Callable[[ComfyServer], Any]]:
    request = f"cancelled judging {turn}"
    replies = json.dumps([verdict(True)] * 2).replace("looked", "so " * 300)
    graph = story(request, ["a", "b"], SIZE, critic=replies, max_attempts=2)
    graph["critic"]["inputs"]["seconds_per_word"] = 0.1
    return graph, lambda host: any(name.startswith("attempts") for name in made(host, request))


@pytest.mark.parametrize("phase", [planning, sampling, judging])
def test_the_next_prompt_runs_and_memory_returns(host: ComfyServer, phase: Any) -> None:
    sizes = []
    for turn in range(CANCELS):
        graph, begun = phase(turn)
        started = host.queue(graph)
        wait_until(host, lambda begun=begun: begun(host))
        answers_at_once(host, started)
        sizes.append(freed(host))
    print([f"{size / 1e6:.0f} MB" for size in sizes])
    assert sizes[-1] - sizes[0] < SLACK, sizes
    assert host.get("/queue") == {"queue_running": [], "queue_pending": []}


def test_a_cancelled_plan_is_generated_again(host: ComfyServer) -> None:
    graph = planned(reply(*["word " * 200] * 5), request="planned again", seconds=0.02)
    started = host.queue(graph)
    wait_until(host, lambda: is_running(host))
    answers_at_once(host, started)
    # Half of a plan must not have been kept anywhere.
    assert "draw: b" in text_of(host.run(planned(reply("b"), request="planned again")), "planned")


def test_a_run_resumes_after_every_cancellation(host: ComfyServer) -> None:
    """A run that is cancelled again at each step still ends, and generates no image twice."""
    request = "cancelled again and again"
    graph = story(request, [f"picture {number}" for number in range(4)], SIZE, steps=60)
    kept: dict[str, int] = {}
    for wanted in (1, 2):
        started = host.queue(graph)
        wait_until(
            host,
            lambda wanted=wanted, started=started: (
                sum(name.startswith("attempts") for name in made(host, request)) >= wanted
                or host.get(f"/history/{started}")
            ),
        )
        host.post("/interrupt")
        host.wait(started)
        assert kept.items() <= made(host, request).items()
        kept = made(host, request)
        assert sum(name.startswith("attempts") for name in kept) >= wanted
    outputs = host.run(graph)
    assert kept.items() <= made(host, request).items()
    assert len(outputs["out"]["images"]) == 4


def test_cancel_presses_without_a_run_do_no_harm(host: ComfyServer) -> None:
    for _ in range(5):
        assert host.post("/interrupt").status_code == 200
    outputs = host.run(story("after idle cancels", ["a"], SIZE, steps=1))
    assert len(outputs["out"]["images"]) == 1
