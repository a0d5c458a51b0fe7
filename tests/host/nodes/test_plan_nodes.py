"""Planner and Edit Plan in the real host: images, counts, captions, edits and errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from PIL import Image
from support.chat_server import chat_server

from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set

from ..graphs.attempt_pairs import pair
from ..graphs.stories import changed, edited, node, planned, reply, story, written
from ..graphs.stories import shown as preview
from ..server.comfy_server import ComfyServer
from ..server.runs import failure, journal, on_a_wire, refusal, text_of, trajectory  # fmt: skip


def shown(outputs: dict[str, Any]) -> dict[str, Any]:
    """Return the message of Edit Plan to the browser."""
    (sent,) = outputs["edit"]["interleave_plan"]
    return sent


def test_the_planner_outputs_a_plan_and_its_text(host: ComfyServer) -> None:
    graph = planned(reply("a boat"), request="planned by an agent")
    outputs = host.run(story("planned", ["replaced"]) | graph | {"plan": graph["planner"]})
    assert text_of(outputs, "planned") == "1. Step 1\n   draw: a boat\n   text: Text 1"
    assert outputs["thought"]["text"] == ["easy"] and len(outputs["out"]["images"]) == 1
    report = text_of(outputs, "report")
    assert "Prompt set" not in report and default_prompt_set().digest not in report
    mute = host.run(planned(reply("a", thought="mute"), request="mute", captions="none"))
    assert text_of(mute, "planned") == "1. Step 1\n   draw: a"


def test_a_planner_sees_every_connected_image(host: ComfyServer) -> None:
    graph = planned(reply("a"), request="<image> <image> <image> compare")
    for index, color in enumerate(("red", "green", "blue")):
        name = host.put_input(Image.new("RGB", (32, 32), color), f"plan-{color}.png")
        graph[f"image{index}"] = node("LoadImage", image=name)
    graph["batch"] = node("ImageBatch", image1="@image0", image2="@image1")
    graph = changed(graph, "planner", **{"images.image0": "@batch", "images.image1": "@image2"})
    assert "draw: a" in text_of(host.run(graph), "planned")
    failure(host, changed(graph, "planner", request="<image> compare"), r"1 <image> mark\(s\), but 3 image")


def test_the_closest_plan_of_a_wrong_length_is_used_with_a_warning(host: ComfyServer) -> None:
    outputs = host.run(planned(reply("a", "b"), reply("a", "b", "c"), request="counted", step_count=3))
    assert "3. Step 3" in text_of(outputs, "planned") and "planner" not in outputs
    counts = {"request": "counted again", "step_count": 3}
    outputs = host.run(planned(reply("a", "b"), reply("a"), **counts))
    (warning,) = outputs["planner"]["interleave_plan_warning"]
    assert warning.startswith("3 steps were requested, but the planner wrote 2 and then 1. The plan of 2")
    exact = planned(reply("c", "d"), reply("a"), exact_count=True, **counts)
    failure(host, exact, "3 steps were requested, but the planner wrote 2 and then 1")


def test_findings_are_warnings_of_the_planner_unless_they_are_repaired(host: ComfyServer) -> None:
    faulty, good = reply("a red boat", "a red boat"), reply("a red boat", "make the boat blue")
    outputs = host.run(edited("", planned(faulty, request="checked")))
    message = "The prompt is the same as in step 1."
    assert outputs["planner"]["interleave_plan_warning"] == [f"Step 2: {message}"]
    assert shown(outputs)["findings"] == [{"step": 2, "rule": "identical-prompts", "message": message}]
    outputs = host.run(planned(faulty, good, request="repaired", repair_plan=True))
    assert "make the boat blue" in text_of(outputs, "planned") and "planner" not in outputs


def test_an_agent_translates_the_texts_of_a_plan(host: ComfyServer) -> None:
    plan = edited("1. Morning\n   draw: a boat\n   text: Very early.", language="German")
    failure(host, plan, "no agent translates the texts into 'German'")
    agent = node("InterleaveTestAgent", replies=json.dumps(["Der Morgen", "Sehr früh."]))
    outputs = host.run(changed(plan, "edit", agent="@agent") | {"agent": agent})
    assert text_of(outputs, "text") == "1. Der Morgen\n   draw: a boat\n   text: Sehr früh."


def test_a_long_plan_resumes_at_the_missing_part_and_outlives_the_hosts_cache(host: ComfyServer) -> None:
    outline = json.dumps({"outline": [f"{number}. Mile {number}." for number in range(1, 14)], "always": ""})
    parts = [
        json.dumps({"execution_plan": [{"step_number": at, "auxiliary_text": f"Mile {at}."} for at in some]})
        for some in (range(1, 7), range(7, 14))
    ]
    with chat_server("no plan at all") as server:
        url = server.spec.partition("@")[2]
        graph = planned(request="a long walk", step_count=13)
        graph["agent"] = node("InterleaveRemoteAgent", base_url=url, model="tiny", timeout=60)
        server.script = [outline, parts[0]]
        failure(host, graph, r"Steps 7-13 of 13")
        asked, server.script = len(server.requests), [parts[1]]
        assert "Mile 13." in text_of(host.run(graph), "planned")
        assert len(server.requests) == asked + 1
        host.free()
        again = host.run(graph)
        assert "Mile 13." in text_of(again, "planned") and len(server.requests) == asked + 1
        assert again["planner"]["interleave_plan_warning"] == ["The plan of an earlier run is used."]
        server.script = [outline, *parts]
        assert "planner" not in host.run(changed(graph, "planner", seed=1))
        assert len(server.requests) == asked + 4, "another seed asks for a new plan"
    assert len(list((host.base / "output" / "interleave-thinker").glob("a-long-walk-*/planning/*"))) == 2


def test_a_style_precedes_every_generated_prompt(host: ComfyServer) -> None:
    graph = planned(reply("x"), request="styled", style="Ink on paper")
    graph |= written("styled", "1. a red house\n2. add a tree")
    host.run(changed(graph, "edit", plan="@planner", request=None))
    found = trajectory(journal(host, "styled"))
    drawn = [attempt["prompt"] for result in found["results"] for attempt in result["attempts"]]
    assert drawn == ["Ink on paper. a red house", "Ink on paper. add a tree"]


def test_the_planners_seed_and_temperature_win_over_the_agents(host: ComfyServer) -> None:
    with chat_server(reply("a boat")) as server:
        url = server.spec.partition("@")[2]
        graph = planned(request="sampled", seed=7, temperature=0.5)
        graph["agent"] = node("InterleaveRemoteAgent", base_url=url, model="tiny", temperature=1.5)
        host.run(graph)
        host.run(changed(graph, "planner", seed=0, temperature=0.0))
    sampled, of_agent = server.requests
    assert (sampled["seed"], sampled["temperature"]) == (7, 0.5)
    assert (of_agent["seed"], of_agent["temperature"]) == (0, 1.5)


def test_a_manual_plan_is_generated_without_a_planner(host: ComfyServer) -> None:
    request = "Twelve images by hand"
    graph = written(request, "1. a red house\n2. add a tree\n3. The end\n   text: Good night.")
    # Twelve, since image10 must come after image9.
    for index in range(12):
        name = host.put_input(Image.new("RGB", (96, 96), (index * 20,) * 3), f"by-hand-{index}.png")
        graph[f"source{index}"] = node("LoadImage", image=name)
        graph = changed(graph, "edit", **{f"images.image{index}": f"@source{index}"})
    outputs = host.run(graph)
    assert "Text only" in text_of(outputs, "report") and len(outputs["loop"]["images"]) == 2
    folder = journal(host, request.lower())
    digests = json.loads((folder / "run.json").read_text(encoding="utf-8"))["request"]["images"]
    kept = [Image.open(folder / "pictures" / f"{digest}.png").getpixel((0, 0)) for digest in digests]
    assert kept == [(index * 20,) * 3 for index in range(12)]


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ("1. House\n  drow: a house", "Line 2, step 1: 'drow' is not a field"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("x" * 1_000_001, "has 1000001 characters"),
    ],
)
def test_an_invalid_plan_is_rejected_before_anything_runs(host: ComfyServer, edits: str, reason: str) -> None:
    refusal(host, edited(edits), "edits", reason)


def test_an_invalid_plan_from_a_link_or_none_is_rejected_during_the_run(host: ComfyServer) -> None:
    typed = on_a_wire(edited("1. House\n  a house"), "edit", "edits")
    failure(host, typed, "InterleaveEditPlan: Line 2, step 1: 'a house' does not belong to a field")
    failure(host, edited(""), r"The plan is empty\. Connect a Planner, or write steps")
    unreadable = planned("no plan", "still none", request="unreadable")
    failure(host, unreadable, "InterleavePlanner")


@pytest.mark.parametrize(
    ("request_text", "reason"), [(" ", "the request is empty"), ("x" * 100_001, "has 100001 characters")]
)
def test_a_request_out_of_bounds_is_one_line(host: ComfyServer, request_text: str, reason: str) -> None:
    graph = planned(reply("a"), request=request_text, captions="short")
    refusal(host, graph, "request", reason)
    failure(host, on_a_wire(graph, "planner", "request"), reason)


def test_the_list_editor_gets_the_parsed_text(host: ComfyServer) -> None:
    good = host.tell("plan", text="1. House [locked]\n draw: a house").json()
    assert good["plan"]["execution_plan"][0]["locked"] and json.loads(good["json_text"]) == good["plan"]
    bad = host.tell("plan", text="1. House\n drow: a").json()
    assert bad["line"] == 2 and "drow" in bad["error"] and bad["plan"] is None
    assert host.tell("plan", text=5).status_code == 400
    assert host.tell("plan", text="x" * 2_000_000).status_code in (400, 413)


STORY = """1. Boat
   draw: a red boat
   text: A boat.

2. Words
   text: Only words.

3. Moon
   draw: add a moon
   text: A moon."""


def test_a_loop_has_a_text_for_every_image(host: ComfyServer) -> None:
    """Images and texts are lists of one length, for nodes that take one of each."""
    loop = written("image texts", STORY) | {
        "steps": preview("loop", 1),
        "texts": preview("loop", 4),
        "out": node("PreviewImage", images="@loop"),
    }
    attempts = edited(STORY, request="image texts of attempts") | pair("", 1, plan=["edit", 0])
    for graph in (loop, attempts | {"texts": preview("close", 6)}):
        outputs = host.run(graph)
        assert outputs["texts"]["text"] == ["A boat.\n\nOnly words.", "A moon."]
        assert len(outputs["out"]["images"]) == 2
        assert "steps" not in graph or outputs["steps"]["text"] == ["A boat.", "Only words.", "A moon."]
