"""The nodes in the real host: what they offer, how a run goes, and their errors."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from ..graphs.klein import Graph, node, story
from ..graphs.replies import verdict
from ..server.comfy_server import ComfyServer, HostError
from ..server.runs import journals

SIZE = (64, 64)
NODES = {
    "InterleaveLoadAgent": "Load Agent",
    "InterleavePlanner": "Planner",
    "InterleaveStepGenerator": "Step Generator",
    "InterleaveTinyWorldGenerator": "Tiny World Generator",
    "InterleavePluginGenerator": "Plug-in Generator",
    "InterleaveCriticLoop": "Critic Loop",
    "InterleaveStoryboard": "Storyboard",
}


def report_of(outputs: dict[str, Any]) -> str:
    return outputs["report"]["text"][0]


def test_every_node_is_offered(host: ComfyServer) -> None:
    info = host.get("/object_info")
    assert {name: info[name]["display_name"] for name in NODES if name in info} == NODES
    for name in NODES:
        assert info[name]["category"] == "InterleaveThinker"
        assert info[name]["description"] and info[name]["search_aliases"]
        inputs = info[name]["input"]
        for key, (_, options) in {**inputs.get("required", {}), **inputs.get("optional", {})}.items():
            assert options.get("tooltip"), f"{name}.{key} has no tooltip"
    agents = info["InterleaveLoadAgent"]["input"]["required"]["agent"][1]["options"]
    assert agents[:2] == ["tiny world planner", "tiny world critic"]


def test_agent_and_image_servers_have_separate_addresses(host: ComfyServer) -> None:
    info = host.get("/object_info")
    agents = info["InterleaveRemoteAgent"]["input"]["required"]["base_url"][1]["default"]
    images = info["InterleaveServiceGenerator"]["input"]["required"]["url"][1]["default"]
    assert urlsplit(agents).port == 8000 and urlsplit(images).port == 8011, "those of vLLM and of serve"


def test_a_step_is_redrawn_until_the_critic_accepts(host: ComfyServer) -> None:
    replies = [verdict(False, "a red house, larger", 0.2), verdict(True, "", 0.9), verdict(True, "", 0.8)]
    graph = story("redrawn", ["a house", "add a tree"], SIZE, critic=json.dumps(replies), max_attempts=5)
    outputs = host.run(graph)
    report = report_of(outputs)
    assert "1. Step 1: Accepted at attempt 2" in report
    assert "2. Step 2: Accepted at attempt 1" in report
    assert "a red house, larger" in report and "20%" in report
    assert len(outputs["out"]["images"]) == 2
    assert len(outputs["loop"]["images"]) == 2


def test_a_run_resumes_from_its_journal(host: ComfyServer) -> None:
    accepting = json.dumps([verdict(True)] * 3)
    first = host.run(story("go on", ["a", "b"], SIZE, critic=accepting, max_attempts=2))
    (folder,) = journals(host, "go on")
    drawn = {path.name: path.stat().st_mtime_ns for path in (folder / "attempts").iterdir()}
    # Nothing but the last prompt changed: the scripted critic has words for that one verdict alone.
    graph = story("go on", ["a", "c"], SIZE, critic=json.dumps([verdict(True)] * 3), max_attempts=2)
    host.run(graph)
    after = {path.name: path.stat().st_mtime_ns for path in (folder / "attempts").iterdir()}
    assert drawn.items() <= after.items() and len(after) == len(drawn) + 1
    assert journals(host, "go on") == [folder]
    assert first["loop"]["images"]


def test_without_a_critic_every_step_is_generated_once(host: ComfyServer) -> None:
    outputs = host.run(story("no critic", ["a", "b"], SIZE, max_attempts=5))
    assert report_of(outputs).count("Not judged by a critic") == 2
    assert len(outputs["out"]["images"]) == 2


def test_a_text_only_story_runs(host: ComfyServer) -> None:
    outputs = host.run(story("words", ["# Once upon a time.", "# The end."], SIZE))
    assert report_of(outputs).count("Text only") == 2
    assert "out" not in outputs  # nothing to save, and no error


def test_image_to_image_starts_from_the_source(host: ComfyServer) -> None:
    settings = {"edit": "image to image", "scheduler": "simple"}
    slight = host.run(story("noise", ["a", "b"], SIZE, denoise=0.25, **settings))
    strong = host.run(story("noise", ["a", "b"], SIZE, denoise=1.0, **settings))
    images = [[host.image(one).tobytes() for one in run["out"]["images"]] for run in (slight, strong)]
    assert images[0][0] == images[1][0] and images[0][1] != images[1][1]


def test_cancelling_stops_the_run_and_keeps_finished_steps(host: ComfyServer) -> None:
    graph = story("cancelled", [f"picture {number}" for number in range(60)], SIZE, steps=40)
    started = host.queue(graph)
    deadline = time.monotonic() + 60
    while not any(list(folder.glob("pictures/*.png")) for folder in journals(host, "cancelled")):
        assert time.monotonic() < deadline, host.log_tail()
        time.sleep(0.05)
    assert host.post("/interrupt").status_code == 200
    entry = host.wait(started)
    assert [kind for kind, _ in entry["status"]["messages"]][-1] == "execution_interrupted"
    (folder,) = journals(host, "cancelled")
    kept = {path.name: path.stat().st_mtime_ns for path in (folder / "pictures").iterdir()}
    assert 0 < len(kept) < 60
    ended = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))
    assert ended["results"][-1]["stop_reason"] == "cancelled"
    outputs = host.run(
        story("cancelled", [f"picture {number}" for number in range(len(kept))], SIZE, steps=40)
    )
    after = {path.name: path.stat().st_mtime_ns for path in (folder / "pictures").iterdir()}
    assert kept.items() <= after.items()
    assert len(outputs["out"]["images"]) == len(kept)


def test_a_changed_model_or_setting_generates_again(host: ComfyServer) -> None:
    graph = story("identity", ["a"], SIZE)
    host.run(graph)
    (folder,) = journals(host, "identity")
    assert len(list((folder / "attempts").iterdir())) == 1
    shifted = graph | {
        "shifted": node(
            "ModelSamplingFlux", model="@model", max_shift=2.0, base_shift=0.5, width=64, height=64
        )
    }
    shifted["generator"] = node(
        "InterleaveStepGenerator", **{**graph["generator"]["inputs"], "model": ["shifted", 0]}
    )
    for changed in (story("identity", ["a"], SIZE, steps=3), shifted, story("identity", ["a"], (80, 64))):
        host.run(changed)
    assert len(list((folder / "attempts").iterdir())) == 4


def with_agent(name: str) -> Graph:
    return {
        "agent": node("InterleaveLoadAgent", agent=name),
        "planner": node("InterleavePlanner", agent="@agent", request="a boat"),
        "text": node("PreviewAny", source=["planner", 1]),
    }


def test_a_missing_agent_raises_with_its_folder(host: ComfyServer) -> None:
    with pytest.raises(HostError, match=r"The agent 'Unknown-8B' was not found.*interleave_agents"):
        host.run(with_agent("Unknown-8B"))


def test_an_agent_name_cannot_leave_the_folders(host: ComfyServer) -> None:
    with pytest.raises(HostError, match=r"The agent .* was not found"):
        host.run(with_agent("../../checkpoints"))


def test_an_unreadable_plan_raises_an_error(host: ComfyServer) -> None:
    graph = {
        "agent": node("InterleaveTestAgent", replies=json.dumps(["no plan", "still none"])),
        "planner": node("InterleavePlanner", agent="@agent", request="a boat"),
        "text": node("PreviewAny", source=["planner", 1]),
    }
    with pytest.raises(HostError, match="InterleavePlanner"):
        host.run(graph)


def test_the_planner_outputs_a_plan_and_its_text(host: ComfyServer) -> None:
    steps = [
        {
            "step_number": 1,
            "step_name": "Boat",
            "instruction": None,
            "prompt": "a boat",
            "auxiliary_text": "Ahoy.",
        }
    ]
    reply = f"<think>easy</think><answer>{json.dumps({'execution_plan': steps})}</answer>"
    graph = story("planned", ["replaced"], SIZE) | {
        "agent": node("InterleaveTestAgent", replies=json.dumps([reply])),
        "plan": node("InterleavePlanner", agent="@agent", request="planned by an agent"),
        "text": node("PreviewAny", source=["plan", 1]),
        "thought": node("PreviewAny", source=["plan", 2]),
    }
    outputs = host.run(graph)
    assert "1. Boat" in outputs["text"]["text"][0] and "Ahoy." in outputs["text"]["text"][0]
    assert outputs["thought"]["text"] == ["easy"]
    assert len(outputs["out"]["images"]) == 1
