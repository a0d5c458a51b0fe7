"""Critic Loop with the settings of the released code, in the real host."""

from __future__ import annotations

import json

from ..graphs.klein import Graph, node, story
from ..graphs.replies import verdict
from ..graphs.story_checks import SIZE
from ..server.comfy_server import ComfyServer
from ..server.runs import journals


def published(request: str, name: str) -> Graph:
    critic = json.dumps([verdict(False, request, 0.1)] * 3)
    graph = story(request, ["a sea page with a red boat at the middle"], SIZE, critic=critic, max_attempts=2)
    graph["generator"] = node("InterleaveTinyWorldGenerator")
    graph["loop"]["inputs"]["as_published"] = name
    return graph


def test_the_released_settings_replace_those_of_the_node(host: ComfyServer) -> None:
    request = "told as released"
    graph = published(request, "released")
    report = host.run(graph)["report"]
    (folder,) = journals(host, request)
    told = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))
    (step,) = told["results"]
    assert [one["seed"] for one in step["attempts"]] == [graph["loop"]["inputs"]["seed"]] * 3
    assert step["chosen"] == 2
    assert '"top_k":20' in told["identities"]["critic"]
    assert "The critic is not asked with the authors' prompts" in str(report)
    assert "This generator keeps its own size" in str(report)
