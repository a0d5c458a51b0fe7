"""One wrong input is one error at that input, with every input as the front end sends it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from PIL import Image

from ..graphs.examples import need_checkpoints
from ..graphs.klein import Graph, node
from ..graphs.plans import edited
from ..server.comfy_server import ComfyServer, HostError

BUILT_IN = "tiny world planner"
PICTURE = "one-error.png"
SHOWN = node("PreviewAny", source=["agent", 0])


def as_sent(host: ComfyServer, kind: str, **given: Any) -> Graph:
    """A node with all of its widgets at their defaults but for these."""
    groups = host.get(f"/object_info/{kind}")[kind]["input"]
    inputs = {
        name: about[1].get("default", about[1].get("options", [None])[0])
        for group in ("required", "optional")
        for name, about in groups.get(group, {}).items()
        if len(about) > 1 and ("default" in about[1] or "options" in about[1])
    }
    return {"agent": node(kind, **inputs | given), "text": SHOWN}


def errors(host: ComfyServer, graph: Graph) -> list[tuple[str, str]]:
    """Input and details of every error that the host reports."""
    with pytest.raises(HostError) as refused:
        host.queue(graph)
    nodes = json.loads(refused.value.details)["node_errors"].values()
    return [(one["extra_info"]["input_name"], one["details"]) for each in nodes for one in each["errors"]]


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("InterleaveLoadAgent", {"agent": "gone"}, "'gone' was not found.*interleave_agents.*hub_id"),
        ("InterleaveLoadAgent", {"agent": "gone.gguf"}, "The agent 'gone.gguf' was not found.*mmproj"),
        ("InterleaveLoadAgent", {"agent": BUILT_IN, "precision": "int3"}, "'int3' not in .*auto"),
        ("InterleaveLoadAgent", {"agent": BUILT_IN, "adapter": "../x"}, "'../x' not in .*none"),
        ("InterleaveRemoteAgent", {"key_variable": "PATH"}, "not the name of an environment variable"),
        ("InterleaveLoadTrajectory", {"story": "gone"}, "gone"),
    ],
)
def test_one_wrong_input_gives_one_error_at_this_input(
    host: ComfyServer, kind: str, given: dict[str, Any], said: str
) -> None:
    need_checkpoints()
    ((name, details),) = errors(host, as_sent(host, kind, **given))
    assert name == list(given)[-1]
    assert re.search(said, details), details


def test_an_unreadable_plan_gives_one_error_with_any_images(host: ComfyServer) -> None:
    graph = edited("{", **{"images.image0": ["seen", 0], "images.image1": ["seen", 0]})
    graph["seen"] = node("LoadImage", image=host.put_input(Image.new("RGB", (8, 8)), PICTURE))
    ((name, _),) = errors(host, graph)
    assert name == "edits"
