"""Planner and Edit Plan in the real host: images, counts, captions, edits, errors and cancelling."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest
from PIL import Image
from support.chat_server import chat_server

from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set

from ..graphs.examples import id_of, need_checkpoints, twin
from ..graphs.klein import Graph, node
from ..graphs.plans import edited, planned, text_of
from ..graphs.replies import reply
from ..server.comfy_server import ComfyServer, HostError


def shown(outputs: dict[str, Any]) -> dict[str, Any]:
    """Return the message of Edit Plan to the browser."""
    (sent,) = outputs["edit"]["interleave_plan"]
    return sent


def test_a_planner_sees_every_connected_image(host: ComfyServer) -> None:
    graph = planned(reply("a"), request="<image> <image> <image> compare")
    for index, color in enumerate(("red", "green", "blue")):
        name = host.put_input(Image.new("RGB", (32, 32), color), f"plan-{color}.png")
        graph[f"image{index}"] = node("LoadImage", image=name)
    graph["batch"] = node("ImageBatch", image1="@image0", image2="@image1")
    graph["planner"]["inputs"] |= {"images.image0": ["batch", 0], "images.image1": ["image2", 0]}
    assert "draw: a" in text_of(host.run(graph), "planned")
    graph["planner"]["inputs"]["request"] = "<image> <image> compare"
    with pytest.raises(HostError, match=r"2 <image> mark\(s\), but 3 image"):
        host.run(graph)


def test_the_closest_plan_of_a_wrong_length_is_used_with_a_warning(host: ComfyServer) -> None:
    outputs = host.run(planned(reply("a", "b"), reply("a", "b", "c"), request="counted", step_count=3))
    assert "3. Step 3" in text_of(outputs, "planned") and "planner" not in outputs
    counts = {"request": "counted again", "step_count": 3}
    outputs = host.run(planned(reply("a", "b"), reply("a"), **counts))
    assert "2. Step 2" in text_of(outputs, "planned")
    (warning,) = outputs["planner"]["interleave_plan_warning"]
    assert warning.startswith("3 steps were requested, but the planner wrote 2 and then 1. The plan of 2")
    with pytest.raises(HostError, match=r"3 steps were requested, but the planner wrote 2 and then 1"):
        host.run(planned(reply("c", "d"), reply("a"), exact_count=True, **counts))


def test_findings_are_warnings_of_the_planner_unless_they_are_repaired(host: ComfyServer) -> None:
    faulty, good = reply("a red boat", "a red boat"), reply("a red boat", "make the boat blue")
    outputs = host.run(edited("", planned(faulty, request="checked")))
    message = "The prompt is the same as in step 1."
    assert outputs["planner"]["interleave_plan_warning"] == [f"Step 2: {message}"]
    assert shown(outputs)["findings"] == [{"step": 2, "rule": "identical-prompts", "message": message}]
    outputs = host.run(planned(faulty, good, request="repaired", repair_plan=True))
    assert "make the boat blue" in text_of(outputs, "planned") and "planner" not in outputs


def test_a_plan_of_many_steps_is_written_in_parts(host: ComfyServer) -> None:
    outline = {"outline": [f"{number}. Mile {number}." for number in range(1, 14)], "always": "ink"}
    parts = reply(*"abcdef", thought="first half"), reply(*"ghijklm", thought="second half")
    outputs = host.run(planned(json.dumps(outline), *parts, request="a walk", step_count=13))
    assert "13. Step 7" in text_of(outputs, "planned") and "draw: m" in text_of(outputs, "planned")
    assert "first half" in text_of(outputs, "thought") and "second half" in text_of(outputs, "thought")


def test_a_long_plan_resumes_at_the_missing_part(host: ComfyServer) -> None:
    outline = json.dumps({"outline": [f"{number}. Mile {number}." for number in range(1, 14)], "always": ""})
    parts = [
        json.dumps({"execution_plan": [{"step_number": at, "auxiliary_text": f"Mile {at}."} for at in some]})
        for some in (range(1, 7), range(7, 14))
    ]
    with chat_server("no plan at all") as server:
        graph = {
            "agent": node(
                "InterleaveRemoteAgent", base_url=server.spec.partition("@")[2], model="tiny",
                key_variable="INTERLEAVE_TEST_KEY", timeout=60,
            ),
            "planner": node("InterleavePlanner", agent="@agent", request="a long walk", step_count=13),
            "planned": node("PreviewAny", source=["planner", 1]),
        }  # fmt: skip
        server.script = [outline, parts[0]]
        with pytest.raises(HostError, match=r"Steps 7-13 of 13"):
            host.run(graph)
        asked, server.script = len(server.requests), [parts[1]]
        assert "Mile 13." in text_of(host.run(graph), "planned")
        assert len(server.requests) == asked + 1
    assert not list((host.base / "output" / "interleave-thinker").glob("a-long-walk*-plan-*"))


def test_the_report_names_the_planners_prompt_set(host: ComfyServer) -> None:
    graph = planned(reply("a"), request="which prompt set")
    graph["generator"] = node("InterleaveTinyWorldGenerator")
    graph["loop"] = node(
        "InterleaveCriticLoop", plan=["planner", 0], generator="@generator", max_attempts=1, accept_at=0.0,
        keep="best", source="previous", on_failure="keep", seed=0,
    )  # fmt: skip
    graph["report"] = node("PreviewAny", source=["loop", 3])
    text = text_of(host.run(graph), "report")
    assert "Prompt set: default" in text and default_prompt_set().digest not in text


def test_a_style_precedes_every_generated_prompt(host: ComfyServer) -> None:
    graph = edited(
        "1. a red house\n2. add a tree", planned(reply("x"), request="styled", style="Ink on paper")
    )
    graph |= {
        "generator": node("InterleaveTinyWorldGenerator"),
        "loop": node(
            "InterleaveCriticLoop", plan="@edit", generator="@generator", max_attempts=1, accept_at=0.0,
            keep="best", source="previous", on_failure="keep", seed=0,
        ),
    }  # fmt: skip
    host.run(graph)
    (folder,) = (host.base / "output" / "interleave-thinker").glob("styled-*")
    trajectory = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))
    drawn = [attempt["prompt"] for result in trajectory["results"] for attempt in result["attempts"]]
    assert drawn == ["Ink on paper. a red house", "Ink on paper. add a tree"]
    assert trajectory["plan"]["style"] == "Ink on paper"


def test_a_manual_step_is_generated_with_its_own_settings(host: ComfyServer) -> None:
    text = "1. a red house\n2. add a tree\n3. Sun\n  draw: add a sun\n  source: step 1\n  seed: 77"
    graph = edited(text, request="Settings by hand") | {
        "generator": node("InterleaveTinyWorldGenerator"),
        "loop": node(
            "InterleaveCriticLoop", plan="@edit", generator="@generator", max_attempts=1, accept_at=0.0,
            keep="best", source="previous", on_failure="keep", seed=0,
        ),
    }  # fmt: skip
    outputs = host.run(graph)
    assert "source: step 1" in text_of(outputs)
    (folder,) = (host.base / "output" / "interleave-thinker").glob("settings-by-hand-*")
    first, _, third = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))["results"]
    assert third["attempts"][0]["source"] == first["attempts"][0]["image"]
    assert third["attempts"][0]["seed"] == 77
    graph["edit"]["inputs"]["edits"] = f"{text}\n  denoise: 0.5"
    with pytest.raises(
        HostError, match="Step 3 sets its own denoise, but this generator does not support denoise"
    ):
        host.run(graph)


def test_the_seed_determines_the_plan(host: ComfyServer) -> None:
    """With a real agent, which samples its answer."""
    need_checkpoints()

    def plan(seed: int, exact_count: bool = False) -> str:
        graph = twin("tiny_world_story")
        name = id_of(graph, "InterleavePlanner")
        # A high temperature, so that a model of two million weights gives different answers. The count is not
        # part of the prompt, but a changed one makes the node run again.
        graph[name]["inputs"] |= {"seed": seed, "temperature": 2.0, "exact_count": exact_count}
        agent = graph[name]["inputs"]["agent"][0]
        wanted = {name: graph[name], agent: graph[agent], "text": node("PreviewAny", source=[name, 1])}
        try:
            return text_of(host.run(wanted))
        except HostError as error:  # two samples in a row were not valid plans
            return str(error)

    assert plan(1) == plan(1, exact_count=True)
    assert len({plan(seed) for seed in range(1, 5)}) > 1


def test_the_tiny_planner_names_unknown_words(host: ComfyServer) -> None:
    need_checkpoints()
    graph = twin("tiny_world_story")
    graph[id_of(graph, "InterleavePlanner")]["inputs"] |= {"request": "Add a white owl.", "step_count": 2}
    with pytest.raises(HostError, match="does not know: owl") as raised:
        host.run(graph)
    assert raised.value.details["node_type"] == "InterleavePlanner"
    shown = raised.value.details["exception_type"]
    assert shown == "interleave_thinker.SettingsError", "front ends show it, without the folder's path"


def test_captions_can_be_left_out(host: ComfyServer) -> None:
    outputs = host.run(planned(reply("a"), request="mute", captions="none"))
    assert text_of(outputs, "planned") == "1. Step 1\n   draw: a"


def test_edits_are_kept_with_a_new_plan(host: ComfyServer) -> None:
    first = planned(reply("a", "b", "c"), request="stay")
    untouched = host.run(edited("", first))
    assert text_of(untouched) == text_of(untouched, "planned")
    base = shown(untouched)["planned"]
    steps = base["execution_plan"]
    steps[1]["prompt"] = "B, by hand"
    steps[2]["locked"] = True
    edits = json.dumps(base)
    outputs = host.run(edited(edits, first))
    assert "draw: B, by hand" in text_of(outputs) and not shown(outputs)["stale"]
    again = host.run(edited(edits, planned(reply("x", "y", "z", "w"), request="stay")))
    text = text_of(again)
    assert [part in text for part in ("draw: x", "draw: B, by hand", "draw: c", "draw: w")] == [True] * 4
    assert shown(again)["stale"] and "steps 2 and 3 as you wrote or locked them" in shown(again)["note"]
    assert shown(again)["result"]["execution_plan"][2]["locked"]


def test_a_manual_plan_is_generated_without_a_planner(host: ComfyServer) -> None:
    graph = edited(
        "1. a red house\n2. add a tree\n3. The end\n   text: Good night.", request="Twelve images by hand"
    )
    # Twelve, since image10 must come after image9.
    for index in range(12):
        name = host.put_input(Image.new("RGB", (96, 96), (index * 20,) * 3), f"by-hand-{index}.png")
        graph[f"source{index}"] = node("LoadImage", image=name)
        graph["edit"]["inputs"][f"images.image{index}"] = [f"source{index}", 0]
    graph |= {
        "generator": node("InterleaveTinyWorldGenerator"),
        "loop": node(
            "InterleaveCriticLoop", plan="@edit", generator="@generator", max_attempts=1, accept_at=0.0,
            keep="best",
            source="previous", on_failure="keep", seed=0,
        ),
        "report": node("PreviewAny", source=["loop", 3]),
    }  # fmt: skip
    outputs = host.run(graph)
    assert "Text only" in text_of(outputs, "report") and len(outputs["loop"]["images"]) == 2
    (folder,) = (host.base / "output" / "interleave-thinker").glob("twelve-images-by-hand-*")
    digests = json.loads((folder / "run.json").read_text(encoding="utf-8"))["request"]["images"]
    kept = [Image.open(folder / "pictures" / f"{digest}.png").getpixel((0, 0)) for digest in digests]
    assert kept == [(index * 20,) * 3 for index in range(12)]


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ("1. House\n  drow: a house", "Line 2, step 1: 'drow' is not a field"),
        ("2. End\n  do: nothing", "Line 1, step 2: it has neither a prompt nor an auxiliary text"),
        ('[{"prompt": 5}]', "Line 1, step 1, prompt: it must be a text"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("x" * 1_000_001, "has 1000001 characters"),
        ("1. a\n" * 101, "at most 100 steps"),
        ("1. ../../etc/passwd\nmade from: ../..", "'made from' line is damaged"),
    ],
)  # fmt: skip
def test_an_invalid_plan_is_rejected_before_anything_runs(host: ComfyServer, edits: str, reason: str) -> None:
    with pytest.raises(HostError) as refused:
        host.queue(edited(edits))
    errors = json.loads(refused.value.details)["node_errors"]["edit"]["errors"]
    assert len(errors) == 1 and reason in errors[0]["details"] and "\n" not in errors[0]["details"]


def test_an_invalid_plan_from_a_link_is_rejected_during_the_run(host: ComfyServer) -> None:
    graph = edited("") | {"typed": node("PrimitiveString", value="1. House\n  a house")}
    graph["edit"]["inputs"]["edits"] = ["typed", 0]
    with pytest.raises(
        HostError, match=r"InterleaveEditPlan: Line 2, step 1: 'a house' does not belong to a field"
    ):
        host.run(graph)


@pytest.mark.parametrize(
    ("request_text", "reason"),
    [(" ", "the request is empty"), ("x" * 100_001, "has 100001 characters")],
)
def test_a_request_out_of_bounds_gives_a_one_line_error(
    host: ComfyServer, request_text: str, reason: str
) -> None:
    with pytest.raises(HostError, match=reason) as error:
        host.queue(planned(reply("a"), request=request_text))
    faults = [
        one for each in json.loads(error.value.details)["node_errors"].values() for one in each["errors"]
    ]
    assert [one["extra_info"]["input_name"] for one in faults] == ["request"]
    assert "\n" not in faults[0]["details"].strip()
    on_a_wire = planned(reply("a")) | {"words": node("PrimitiveString", value=request_text)}
    on_a_wire["planner"]["inputs"]["request"] = ["words", 0]
    with pytest.raises(HostError, match=reason) as error:
        host.run(on_a_wire)
    assert "\n" not in str(error.value).strip()


@pytest.mark.parametrize(
    "graph", [edited("1. a \ud800"), edited("1. a", request="\ud800"), planned("", request="\ud800")]
)
def test_a_lone_surrogate_is_rejected(host: ComfyServer, graph: Graph) -> None:
    body = json.dumps({"prompt": graph, "client_id": "tests"})
    answer = httpx.post(
        f"{host.url}/prompt", content=body, headers={"Content-Type": "application/json"}, timeout=60
    )
    message = answer.text
    if answer.status_code == 200:
        message = json.dumps(host.wait(answer.json()["prompt_id"], 10)["status"])
    assert "half a character" in message and host.get("/system_stats")


def test_a_missing_planner_and_text_raise_with_advice(host: ComfyServer) -> None:
    with pytest.raises(HostError, match=r"The plan is empty\. Connect a Planner, or write steps"):
        host.run(edited(""))


def test_cancelling_stops_planning_within_a_token(host: ComfyServer) -> None:
    graph = planned(reply(*["word " * 200] * 5), request="cancelled while planning", seconds=0.02)
    started = host.queue(graph)
    deadline = time.monotonic() + 60
    while not host.get("/queue")["queue_running"]:
        assert time.monotonic() < deadline, host.log_tail()
    time.sleep(1.0)
    pressed = time.monotonic()
    host.post("/interrupt")
    entry = host.wait(started)
    assert time.monotonic() - pressed < 12, "the plan would take 20 s"
    assert [kind for kind, _ in entry["status"]["messages"]][-1] == "execution_interrupted"
    assert "draw: a" in text_of(host.run(planned(reply("a"), request="after the cancel")), "planned")


def test_the_list_editor_gets_the_parsed_text(host: ComfyServer) -> None:
    good = host.post("/interleave-thinker/plan", {"text": "1. House [locked]\n draw: a house"}).json()
    assert good["plan"]["execution_plan"][0]["locked"] and json.loads(good["json_text"]) == good["plan"]
    bad = host.post("/interleave-thinker/plan", {"text": "1. House\n drow: a"}).json()
    assert bad["line"] == 2 and "drow" in bad["error"] and bad["plan"] is None
    assert host.post("/interleave-thinker/plan", {"text": 5}).status_code == 400
    assert host.post("/interleave-thinker/plan", {"text": "x" * 2_000_000}).status_code in (400, 413)
