"""A workflow of an earlier version (`tests/data/workflow.json`) loads in the running host and runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..graphs.choices import FOUND_HERE
from ..graphs.klein import story
from ..graphs.replies import verdict
from ..graphs.story_checks import SIZE
from ..server.comfy_server import ROOT, ComfyServer, HostError
from ..server.runs import journals

FORMER = {"every try": "seed_rule", "as asked": "captions"}
"""Values of choices that a list lacks today, and that a node accepts."""
WIDGETS = {"INT": (int,), "FLOAT": (int, float), "STRING": (str,), "BOOLEAN": (bool,), "COMBO": (str,)}
"""Types of inputs that are widgets, with those of their values."""


def widgets(node: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return name, type and options of every widget in the order of saved values.

    A seed's is followed by its control_after_generate.
    """
    found = []
    for kind in ("required", "optional"):
        for name in node["input_order"].get(kind, []):
            declared = node["input"][kind][name]
            type_name = "COMBO" if isinstance(declared[0], list) else declared[0]
            options = dict(declared[1]) if len(declared) > 1 else {}
            if isinstance(declared[0], list):
                options["options"] = declared[0]
            if type_name not in WIDGETS or options.get("forceInput"):
                continue
            found.append((name, type_name, options))
            if options.get("control_after_generate"):
                found.append(("", "COMBO", {"options": ["fixed", "increment", "decrement", "randomize"]}))
    return found


def test_its_nodes_inputs_and_values_are_those_of_today(host: ComfyServer) -> None:
    nodes = host.get("/object_info")
    graph = json.loads((ROOT / "tests" / "data" / "workflow.json").read_text(encoding="utf-8"))
    ours = [node for node in graph["nodes"] if node["type"].startswith("Interleave")]
    assert len(ours) == 10
    for saved in ours:
        node = nodes[saved["type"]]
        today = widgets(node)
        named = [one["name"] for one in saved.get("inputs", []) if "widget" in one]
        assert [name for name, _, _ in today if name][: len(named)] == named, saved["type"]
        for value, (name, kind, options) in zip(saved.get("widgets_values") or [], today, strict=False):
            assert isinstance(value, WIDGETS[kind]), (saved["type"], name, value)
            if options.get("options") and (saved["type"], name) not in FOUND_HERE:
                assert value in options["options"] or FORMER.get(value) == name, (saved["type"], name, value)
            if kind in ("INT", "FLOAT"):
                assert options["min"] <= value <= options["max"], (saved["type"], name, value)
        sockets = {one["name"].partition(".")[0] for one in saved.get("inputs", []) if "widget" not in one}
        assert sockets <= {*node["input"].get("required", {}), *node["input"].get("optional", {})}
        outputs = [one["type"] for one in saved.get("outputs", [])]
        assert node["output"][: len(outputs)] == outputs, saved["type"]


def test_former_values_of_choices_run_and_others_do_not(host: ComfyServer) -> None:
    request = "told as before"
    graph = story(request, ["a boat"], SIZE, critic=json.dumps([verdict(True, request, 0.9)]))
    (planner,) = (one for one in graph.values() if one["class_type"] == "InterleavePlanner")
    planner["inputs"]["captions"], graph["loop"]["inputs"]["seed_rule"] = "as asked", "every try"
    host.run(graph)
    (folder,) = journals(host, request)
    told = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))
    assert told["settings"]["seed_rule"] == "every attempt"
    graph["loop"]["inputs"]["seed_rule"] = "every tries"
    with pytest.raises(HostError, match="seed_rule"):
        host.run(graph)
