"""Agents in GGUF in the real host, run by a stand-in for llama.cpp's server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fake_llama_server import starts_of, write_agent, write_program

from ..graphs.klein import Graph, node
from ..server.comfy_server import ComfyServer, HostError

STEP = {
    "step_number": 1,
    "step_name": "Boat",
    "instruction": None,
    "prompt": "a boat",
    "auxiliary_text": "Ahoy.",
}
PLAN = f"<think>easy</think><answer>{json.dumps({'execution_plan': [STEP]})}</answer>"
AGENT = "gguf/tiny-Q8_0.gguf"


@pytest.fixture(scope="module")
def model(host: ComfyServer) -> Iterator[Path]:
    yield write_agent(host.base / "models" / "interleave_agents" / "gguf")


@pytest.fixture(scope="module")
def program(host: ComfyServer) -> Path:
    host.llama_server.parent.mkdir(exist_ok=True)
    return write_program(host.llama_server.parent, text=PLAN)


def planning(request: str, **inputs: Any) -> Graph:
    return {
        "agent": node("InterleaveLoadAgent", agent=AGENT, **inputs),
        "planner": node("InterleavePlanner", agent="@agent", request=request),
        "text": node("PreviewAny", source=["planner", 1]),
    }


def is_gone(process: int) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_without_a_server_the_node_shows_install_advice(host: ComfyServer, model: Path) -> None:
    names = host.get("/object_info/InterleaveLoadAgent")["InterleaveLoadAgent"]["input"]["required"]["agent"]
    assert AGENT in names[1]["options"] and not any("mmproj" in name for name in names[1]["options"])
    if not host.llama_server.exists():
        with pytest.raises(HostError, match=r"InterleaveLoadAgent: .*llama-server.*LLAMA_SERVER"):
            host.run(planning("no server"))


def test_a_gguf_file_plans_and_its_server_is_used_again(
    host: ComfyServer, model: Path, program: Path
) -> None:
    assert "1. Boat" in host.run(planning("a boat"))["text"]["text"][0]
    assert "1. Boat" in host.run(planning("another boat"))["text"]["text"][0]
    ((_, arguments),) = starts_of(program)
    assert Path(arguments[arguments.index("-m") + 1]).name == model.name
    assert "1. Boat" in host.run(planning("a third boat", gpu_layers=0, context=4096))["text"]["text"][0]
    _, arguments = starts_of(program)[-1]
    assert arguments[arguments.index("-c") + 1] == "4096" and "--no-mmproj-offload" in arguments


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"precision": "bf16"}, "own precision"),
        ({"agent": "gguf/gone.gguf"}, "The agent 'gguf/gone.gguf' was not found.*mmproj"),
        ({"agent": "../../gguf/tiny-Q8_0.gguf"}, "was not found"),
        ({"gpu_layers": "all"}, "gpu_layers"),
    ],
)
def test_impossible_settings_raise_one_line(
    host: ComfyServer, program: Path, model: Path, inputs: dict[str, Any], said: str
) -> None:
    graph = planning(f"a boat {inputs}")
    graph["agent"]["inputs"] |= inputs
    with pytest.raises(HostError, match=said):
        host.run(graph)


def test_a_killed_host_leaves_no_server(host: ComfyServer, program: Path, model: Path) -> None:
    host.run(planning("a last boat"))
    process, _ = starts_of(program)[-1]
    host.kill()
    try:
        assert is_gone(process)
    finally:
        host.start()
