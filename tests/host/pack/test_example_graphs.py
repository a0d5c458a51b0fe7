"""The example graphs run in the real host, with trained tiny agents, tiny random weights, or servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest
from support.host_home import HostHome

from interleave_thinker import StopReason, Trajectory, load_trajectory
from interleave_thinker.nodes.node_texts import node_names

from ..graphs.examples import Change, changed, id_of, need_models, requirements, twin
from ..graphs.stories import Graph
from ..graphs.template_forms import WITHOUT_APP, completed
from ..graphs.template_names import FILE_NAMES, NAMES, template_path
from ..server.comfy_server import PACK, ComfyServer
from ..server.rigs import template
from ..server.runs import failure, ran_in

TWO_STEPS = ("flux2_klein_4b_story", "sdxl_image_to_image_story", "diffusers_pipeline_story", "remote_agents")
OFFICIAL = (
    "image_flux2_klein_text_to_image", "image_flux2_klein_image_edit_4b_distilled",
    "image_flux2_klein_image_edit_9b_distilled", "image_qwen_image_edit_2511",
    "image-qwen_image_edit_2511_lora_inflation", "image_qwen_image_edit", "sdxl_simple_example",
)  # fmt: skip
OFFICIAL_OF = {
    "one_encoder_two_jobs": ("image_mage_flow_edit_turbo_int8",),
    "moving_story": ("video_wan2_2_14B_flf2v",),
}
"""Official versions of templates whose models no other template has. The first is only in newer hosts."""


def workflow(name: str) -> dict[str, Any]:
    return json.loads(template_path(name).read_text(encoding="utf-8"))


def model_links(graph: Any) -> Iterator[tuple[str, str, str]]:
    """Return (name, url, directory) of every model with a download link in a graph or its subgraphs."""
    if isinstance(graph, dict):
        for one in graph.get("properties", {}).get("models", []) if "type" in graph else []:
            yield one["name"], one["url"].removesuffix("?download=true"), one["directory"]
        graph = list(graph.values())
    if isinstance(graph, list):
        for part in graph:
            yield from model_links(part)


def test_the_host_lists_all_templates_with_an_image(host: ComfyServer) -> None:
    assert set(host.get("/workflow_templates")[PACK]) == set(FILE_NAMES.values())
    for name in FILE_NAMES.values():
        assert host.get(f"/api/workflow_templates/{PACK}/{name}.json")["nodes"]
        picture = host.download(f"/api/workflow_templates/{PACK}/{name}.jpg")
        assert picture.format == "JPEG" and max(picture.size) <= 1024


def test_every_node_of_the_pack_is_in_a_template() -> None:
    used = {node["type"] for name in NAMES for node in workflow(name)["nodes"]}
    # One needs a plug-in, which a template cannot bring. Another is a choice of the generators in a story.
    assert set(node_names()) - used == {"InterleavePluginGenerator", "InterleavePutBack"}


def test_every_template_explains_itself() -> None:
    for name in NAMES:
        graph = workflow(name)
        (note,) = [node for node in graph["nodes"] if node["type"] == "MarkdownNote"]
        assert note["widgets_values"][0].startswith("# ")
        assert len(graph["groups"]) >= 3
        for _, url, _ in model_links(graph):
            assert url in note["widgets_values"][0], f"{name}: {url} is not in the note"


@pytest.mark.parametrize("name", NAMES)
def test_models_are_offered_under_official_links(host_home: HostHome, name: str) -> None:
    sources = OFFICIAL_OF.get(name, OFFICIAL)
    official = {link for source in sources for link in model_links(template(host_home, source))}
    for node in workflow(name)["nodes"]:
        offered = list(model_links(node))
        assert set(offered) <= official, set(offered) - official
        assert [file for file, _, _ in offered] in ([], node.get("widgets_values", [])[:1])
        if node["type"].endswith(("UNETLoader", "CLIPLoader", "VAELoader", "LoaderSimple", "ModelOnly")):
            assert offered, f"{node['type']} offers no download"


@pytest.mark.parametrize("name", NAMES)
def test_a_template_runs(host: ComfyServer, name: str) -> None:
    need_models(host, name)
    with requirements(host, name) as changes:
        graph = changed(twin(name), changes)
        outputs = host.run(graph)
    for key, node in graph.items():
        if node["class_type"] == "InterleaveCriticLoop":
            assert bool(outputs[key]["images"]) == ("generator" in node["inputs"])
        if node["class_type"] in ("InterleaveStoryboard", "SaveImage", "PreviewImage"):
            assert outputs[key]["images"], f"{name}: {node['_meta']['title']} shows nothing"
        if node["class_type"] in ("InterleaveExport", "InterleaveFeedback", "InterleaveJudge", "PreviewAny"):
            assert outputs[key]["text"][0], f"{name}: {node['_meta']['title']} says nothing"
    if name in TWO_STEPS:
        assert len(outputs[id_of(graph, "InterleaveCriticLoop")]["images"]) == 2


def run_of(host: ComfyServer, name: str, *more: Change) -> tuple[Trajectory, Graph, dict[str, Any]]:
    """Return the trajectory of a run of a template with a seed of its own, its graph and outputs."""
    with requirements(host, name) as changes:
        own = Change("InterleaveCriticLoop", {"seed": 3535})
        graph = changed(twin(name), [*changes, own, *more])
        outputs = host.run(graph)
    runs = (host.base / "output" / "interleave-thinker").glob("*/run.json")
    newest = max(runs, key=lambda path: path.stat().st_mtime_ns)
    return load_trajectory(newest.parent), graph, outputs


def trajectory_of(host: ComfyServer, name: str, *more: Change) -> Trajectory:
    return run_of(host, name, *more)[0]


def test_the_published_pair_plans_and_judges_with_two_agents(host: ComfyServer) -> None:
    made = trajectory_of(host, "published_pair")
    assert made.identities.planner.startswith("transformers:planner:")
    assert made.identities.critic.startswith("transformers:critic:")


def test_three_photos_are_seen_at_every_step(host: ComfyServer) -> None:
    made = trajectory_of(host, "three_photos")
    assert len(made.request.images) == 3
    assert all(attempt.source == made.request.images[0] for one in made.results for attempt in one.attempts)
    graph = twin("three_photos")
    planner, generator = (
        graph[id_of(graph, "InterleavePlanner")],
        graph[id_of(graph, "InterleaveStepGenerator")],
    )
    shown = [planner["inputs"][f"images.image{number}"] for number in range(3)]
    beside = [generator["inputs"][f"references.reference_{number}"] for number in (1, 2)]
    assert beside == shown[1:], "the references are the photos that are not edited"


def test_an_annotation_is_exported_with_its_frames_and_without_a_generator(host: ComfyServer) -> None:
    made, graph, outputs = run_of(host, "sub_task_annotation")
    assert [one.stop_reason for one in made.results] == [StopReason.text_only] * 2
    assert made.identities.generator == made.identities.critic == ""
    pages = (host.base / "output" / "interleave-thinker" / "export").glob("sub-task annotation*.html")
    page = max(pages, key=lambda path: path.stat().st_mtime_ns).read_text(encoding="utf-8")
    assert "The fingers close around it." in page
    assert page.count('<use href="#') >= 3, "the three frames, which are one image here"
    (sheet,) = outputs[id_of(graph, "InterleaveStoryboard")]["images"]
    assert host.image(sheet).getpixel((60, 60)) == (135, 206, 235), "the first frame"
    drawn = Change("InterleaveEditPlan", {"edits": "1. Reach\n   draw: a red cube"})
    failure(host, changed(graph, [drawn]), "Step 1 generates an image, but the run has no generator")


def test_the_hero_of_a_picture_book_is_named_where_it_is(host: ComfyServer) -> None:
    first, second = trajectory_of(host, "picture_book").results
    assert all(attempt.cast is None or not attempt.cast.text for attempt in first.attempts)
    told = {attempt.cast.text for attempt in second.attempts if attempt.cast}
    assert told == {"sun: round face. sun appears exactly once."}
    assert second.attempts[0].source == first.image


def test_a_film_storyboard_is_wide_and_shows_the_earlier_shots() -> None:
    graph = twin("film_storyboard")
    size = graph[id_of(graph, "InterleaveStepGenerator")]["inputs"]
    assert size["width"] * 9 == size["height"] * 16
    assert graph[id_of(graph, "InterleaveCriticLoop")]["inputs"]["source"] == "all"
    assert graph[id_of(graph, "InterleaveExport")]["inputs"]["lettering"] == "shots"


def test_earlier_images_are_shown_next_to_the_edited_one(host: ComfyServer) -> None:
    first, second, third = trajectory_of(host, "earlier_images").results
    assert first.attempts[0].beside == second.attempts[0].beside == ()
    assert third.attempts[0].source == second.image
    assert third.attempts[0].beside == (first.image,)


def test_a_hosted_node_is_called_once_for_every_attempt(host: ComfyServer) -> None:
    """Each call is billed. The stand-in paints one color, computed from prompt and seed."""
    calls = host.base / "output" / "test-nodes-that-ran.txt"

    def made(attempts: int) -> Trajectory:
        calls.unlink(missing_ok=True)
        return trajectory_of(
            host,
            "hosted_node",
            Change("InterleaveTryClose", {"max_attempts": attempts}),
            Change("InterleaveTryOpen", {"seed": 3535}),
        )

    (step,) = made(2).results
    assert ran_in(host) == ["hosted"] * 2
    assert step.attempts[0].prompt != step.attempts[1].prompt, "the critic's refined prompt"
    for attempt in step.attempts:
        color = crc32(f"{attempt.prompt}|{attempt.seed}".encode()).to_bytes(4, "big")[:3]
        assert attempt.image is not None and attempt.image.image.getpixel((0, 0)) == tuple(color)
    (step,) = made(3).results
    assert len(step.attempts) == 3
    assert ran_in(host) == ["hosted"], "only the third attempt is new"


def test_one_verdict_accepts_and_one_rejects_with_a_reason_without_a_model(host: ComfyServer) -> None:
    graph = twin("judge_only")
    outputs = host.run(graph)
    said = {
        graph[key]["_meta"]["title"]: shown["text"][0] for key, shown in outputs.items() if "text" in shown
    }
    assert said["Verdict on the sun"].startswith("Accepted")
    assert "All is as it should be: the sea page, a yellow sun at the top right" in said["Verdict on the sun"]
    assert said["Verdict on the moon"].startswith("Rejected")
    assert "there should be a white moon, but there is a yellow sun" in said["Verdict on the moon"]
    assert said["Refined prompt"].startswith("add a white moon at the top right")


# What newer front ends read in a template

HOW = "run `python tests/host/graphs/template_forms.py`, or name it in WITHOUT_APP with the reason"
STORIES = {"InterleaveStoryboard", "SaveImage"}


@pytest.mark.parametrize("name", NAMES)
def test_a_template_has_the_fields_of_newer_front_ends(name: str) -> None:
    graph = workflow(name)
    assert graph == completed(graph, name), HOW
    sent = twin(name)
    for node in graph["nodes"]:
        named = node.get("widgets_values_named", {})
        inputs = sent.get(str(node["id"]), {"inputs": {}})["inputs"]
        # The page sends its own language for Export's "as the interface".
        for key in (named.keys() & inputs.keys()) - {"language"}:
            assert isinstance(inputs[key], list) or inputs[key] == named[key], f"{node['type']}: {key}"
    if name in WITHOUT_APP:
        return
    kinds = {node["id"]: node["type"] for node in graph["nodes"]}
    app = graph["extra"]["linearData"]
    asked = {value for _, value in app["inputs"]}
    assert app["outputs"] and asked & {"request", "edits", "prompt", "instruction", "story"}, HOW
    for kind, wanted in (("LoadImage", "image"), ("InterleavePlanner", "step_count")):
        assert wanted in asked or kind not in kinds.values()
    if STORIES & set(kinds.values()):
        assert {kinds[number] for number in app["outputs"]} <= STORIES
