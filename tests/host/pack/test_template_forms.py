"""Every template has its widget values by name and its App mode, or is listed as one without App mode."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..graphs.examples import twin
from ..graphs.template_forms import WITHOUT_APP, completed
from ..graphs.template_names import NAMES, template_path

HOW = "run `python tests/host/graphs/template_forms.py`, or name it in WITHOUT_APP with the reason"
STORIES = {"InterleaveStoryboard", "SaveImage"}


def workflow(name: str) -> dict[str, Any]:
    return json.loads(template_path(name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_a_template_has_the_fields_of_newer_front_ends(name: str) -> None:
    assert workflow(name) == completed(workflow(name), name), HOW


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITHOUT_APP])
def test_an_app_has_something_to_type_and_something_to_see(name: str) -> None:
    graph = workflow(name)
    kinds = {node["id"]: node["type"] for node in graph["nodes"]}
    app = graph["extra"]["linearData"]
    assert app["inputs"] and app["outputs"], HOW
    asked = {value for _, value in app["inputs"]}
    assert asked & {"request", "edits", "prompt", "instruction", "story"}
    for kind, wanted in (("LoadImage", "image"), ("InterleavePlanner", "step_count")):
        assert wanted in asked or kind not in kinds.values()
    if STORIES & set(kinds.values()):
        assert {kinds[number] for number in app["outputs"]} <= STORIES


@pytest.mark.parametrize("name", NAMES)
def test_values_by_name_are_those_that_are_sent(name: str) -> None:
    sent = twin(name)
    for node in workflow(name)["nodes"]:
        named = node.get("widgets_values_named", {})
        inputs = sent.get(str(node["id"]), {"inputs": {}})["inputs"]
        # The page sends its own language for Export's "as the interface".
        for key in (named.keys() & inputs.keys()) - {"language"}:
            assert isinstance(inputs[key], list) or inputs[key] == named[key], f"{node['type']}: {key}"
