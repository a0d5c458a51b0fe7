"""skills/interleaved-story as a program uses it: slots are set, the graph is queued, `story.json` is read."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from interleave_thinker.backend.output.exporters.story import StoryFile

from ..graphs.examples import Change, changed, need_checkpoints, requirements
from ..graphs.skill import SKILL, SLOTS_FILE, files, names
from ..server.comfy_server import ComfyServer

Graph = dict[str, Any]


def graph_of(name: str) -> Graph:
    return json.loads((SKILL / f"{name}.json").read_text(encoding="utf-8"))


def with_slots(name: str, /, **values: Any) -> Graph:
    """Return a graph with these slots set, as described in SKILL.md."""
    graph = graph_of(name)
    slots = json.loads((SKILL / SLOTS_FILE).read_text(encoding="utf-8"))[name]
    for slot, value in values.items():
        node, _, field = slots[slot]["address"].partition(".")
        assert graph[node]["inputs"][field] == slots[slot]["value"]
        graph[node]["inputs"][field] = value
    return graph


def story_of(host: ComfyServer, outputs: dict[str, Any]) -> tuple[StoryFile, str]:
    """The story that a queued graph wrote, and its address."""
    url = outputs["story"]["interleave_files"][0]["url"]
    return StoryFile.model_validate(host.get(url)), url


def test_the_graphs_are_those_of_the_examples() -> None:
    """`python tests/host/graphs/skill.py` writes them again."""
    made = files()
    assert {path.name for path in SKILL.iterdir()} == {*made, "SKILL.md"}
    for name, text in made.items():
        assert (SKILL / name).read_text(encoding="utf-8") == text, name


def test_the_skill_names_every_graph_and_state() -> None:
    text = (SKILL / "SKILL.md").read_text(encoding="utf-8")
    table = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert table == set(names())
    states = StoryFile.model_json_schema()["$defs"]["StoryPart"]["properties"]["state"]["enum"]
    assert all(f"`{state}`" in text for state in states)


@pytest.mark.parametrize("name", names())
def test_a_graph_has_only_nodes_and_inputs_of_the_host(host: ComfyServer, name: str) -> None:
    for key, node in graph_of(name).items():
        given = {field.partition(".")[0] for field in node["inputs"]}
        assert given <= host.inputs_of(node["class_type"]).keys(), key


def test_a_story_is_queued_and_read(host: ComfyServer) -> None:
    need_checkpoints()
    request = "Draw a sea page with a red boat in the middle. Then make it blue."
    graph = with_slots("tiny_world_story", request=request, attempts=3, name="skill/boat")
    story, url = story_of(host, host.run(graph))
    assert story.request == request and story.complete and len(story.steps) == 2
    for step in story.steps:
        assert step.image and step.state in ("accepted", "not accepted")
        folder, _, name = step.image.file.partition("/")
        place = dict(parse_qsl(urlsplit(url).query))
        place |= {"subfolder": f"{place['subfolder']}/{folder}", "filename": name}
        picture = host.download("/view", place)
        assert picture.size == (step.image.width, step.image.height)


def test_a_custom_plan_replaces_the_planner(host: ComfyServer) -> None:
    """Use the node of one graph in another, as described in SKILL.md."""
    need_checkpoints()
    graph = with_slots("tiny_world_story", attempts=2)
    graph["edit_plan"] = with_slots(
        "plan_by_hand", plan="1. The sea\n   draw: a sea page with a red boat in the middle\n   text: Once."
    )["edit_plan"]
    del graph["planner"], graph["planning_agent"]
    graph["critic_loop"]["inputs"]["plan"] = ["edit_plan", 0]
    story, _ = story_of(host, host.run(graph))
    assert [step.text for step in story.steps] == ["Once."]


def test_another_graph_runs_with_small_models(host: ComfyServer) -> None:
    with requirements(host, "flux2_klein_4b_story") as changes:
        graph = changed(graph_of("flux2_klein_4b_story"), changes)
        story, _ = story_of(host, host.run(changed(graph, [Change("InterleaveLoadAgent", {})])))
    assert story.complete and len(story.steps) == 2
