"""A real Qwen3-VL checkpoint as agent in the real host: found, loaded by the host's memory manager, cancelled mid-word."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from .comfy_server import ComfyServer, HostError
from .klein_graphs import node, story

AGENT = "someone/tiny-agent"


@pytest.fixture(scope="module")
def agent(host: ComfyServer) -> Path:
    """An untrained checkpoint of the real architecture in the host's agent folder."""
    from tiny_checkpoint import build_checkpoint

    folder = host.base / "models" / "interleave_agents" / AGENT
    folder.mkdir(parents=True)
    return build_checkpoint(folder)


def offered(host: ComfyServer) -> list[str]:
    info = host.get("/object_info/InterleaveLoadAgent")
    return info["InterleaveLoadAgent"]["input"]["required"]["agent"][1]["options"]


def test_checkpoints_are_offered_and_other_folders_are_not(host: ComfyServer, agent: Path) -> None:
    other = agent.parent / "not-an-agent"
    other.mkdir()
    (other / "config.json").write_text('{"model_type": "llama"}')
    assert AGENT in offered(host)
    assert not any("not-an-agent" in name for name in offered(host))


def test_cancel_stops_an_agent_in_the_middle_of_a_reply(host: ComfyServer, agent: Path) -> None:
    graph = story("interrupted judge", ["a house"], (64, 64), max_attempts=5)
    graph["critic"] = node("InterleaveLoadAgent", agent=AGENT)
    graph["loop"]["inputs"]["critic"] = ["critic", 0]
    before = host.log_path.read_text(errors="replace").count("Requested to load AgentModel")
    started = host.queue(graph)
    deadline = time.monotonic() + 60
    while host.log_path.read_text(errors="replace").count("Requested to load AgentModel") == before:
        assert time.monotonic() < deadline, host.log_tail()
        time.sleep(0.05)
    time.sleep(0.3)
    pressed = time.monotonic()
    host.post("/interrupt")
    entry = host.wait(started)
    assert [kind for kind, _ in entry["status"]["messages"]][-1] == "execution_interrupted"
    assert time.monotonic() - pressed < 5


def test_a_damaged_checkpoint_says_what_is_wrong(host: ComfyServer, agent: Path) -> None:
    damaged = agent.parent / "damaged"
    damaged.mkdir()
    (damaged / "config.json").write_bytes((agent / "config.json").read_bytes())
    graph = {
        "agent": node("InterleaveLoadAgent", agent="someone/damaged"),
        "planner": node("InterleavePlanner", agent="@agent", request="a boat"),
        "text": node("PreviewAny", source=["planner", 1]),
    }
    with pytest.raises(HostError, match=r"damaged.*safetensors"):
        host.run(graph)
