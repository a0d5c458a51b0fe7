"""Critic Loop, Judge and Put Back in the real host: what they offer, how a run goes, and their errors."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from support.made_edits import difference, far_from_change, textured, tinted, with_change

from ..graphs.examples import need_checkpoints
from ..graphs.stories import TINY_WORLD, Graph, changed, edited, node, scripted, shown, story, verdict
from ..server.comfy_server import ComfyServer
from ..server.runs import (
    PHOTOS,
    failure,
    journal,
    journals,
    made,
    on_a_wire,
    refusal,
    text_of,
    trajectory,
)  # fmt: skip


def test_a_step_is_redrawn_until_the_critic_accepts(host: ComfyServer) -> None:
    replies = [verdict(False, "a red house, larger", 0.2), verdict(True, "", 0.9), verdict(True, "", 0.8)]
    outputs = host.run(story("redrawn", ["a house", "add a tree"], critic=replies, max_attempts=5))
    report = text_of(outputs, "report")
    assert "1. Step 1: Accepted at attempt 2" in report
    assert "2. Step 2: Accepted at attempt 1" in report
    assert "a red house, larger" in report and "20%" in report
    assert len(outputs["out"]["images"]) == len(outputs["loop"]["images"]) == 2


def test_without_a_critic_every_step_is_generated_once(host: ComfyServer) -> None:
    outputs = host.run(story("no critic", ["a", "b"], max_attempts=5))
    assert text_of(outputs, "report").count("Not judged by a critic") == 2
    assert len(outputs["out"]["images"]) == 2


def test_a_text_only_story_runs(host: ComfyServer) -> None:
    outputs = host.run(story("words", ["# Once upon a time.", "# The end."]))
    assert text_of(outputs, "report").count("Text only") == 2
    assert "out" not in outputs  # nothing to save, and no error


def test_the_released_settings_replace_those_of_the_node(host: ComfyServer) -> None:
    request = "told as released"
    critic = [verdict(False, request, 0.1)] * 3
    prompts = ["a sea page with a red boat at the middle"]
    graph = story(request, prompts, critic=critic, generator=TINY_WORLD, as_published="released")
    report = text_of(host.run(graph), "report")
    told = trajectory(journal(host, request))
    (step,) = told["results"]
    assert [one["seed"] for one in step["attempts"]] == [graph["loop"]["inputs"]["seed"]] * 3
    assert step["chosen"] == 2
    assert '"top_k":20' in told["identities"]["critic"]
    assert "The critic is not asked with the authors' prompts" in report
    assert "This generator keeps its own size" in report


def test_a_changed_model_or_setting_generates_again(host: ComfyServer) -> None:
    graph = story("identity", ["a"])
    shift = {"max_shift": 2.0, "base_shift": 0.5, "width": 64, "height": 64}
    shifted = graph | {"shifted": node("ModelSamplingFlux", model="@model", **shift)}
    for one in (
        graph,
        changed(graph, "generator", steps=3),
        changed(shifted, "generator", model="@shifted"),
        changed(graph, "generator", width=80),
    ):
        host.run(one)
    assert len(made(host, "identity", "attempts")) == 4 and len(journals(host, "identity")) == 1


# Judge


def judged(*replies: Any, before: bool = False, **inputs: Any) -> Graph:
    """A Judge on a black image with the scripted replies; its outputs as text under their names."""
    graph = {
        "agent": scripted([*replies]),
        "after": node("EmptyImage", width=64, height=64, batch_size=1, color=0),
        "before": node("EmptyImage", width=32, height=64, batch_size=1, color=0xFFFFFF),
        "judge": node("InterleaveJudge", agent="@agent", after="@after", accept_at=0.0),
    }
    for slot, name in enumerate(("success", "probability", "prompt", "reasoning", "text")):
        graph[name] = shown("judge", slot)
    given = {"instruction": "a black page", **({"before": "@before"} if before else {})}
    return changed(graph, "judge", **{**given, **inputs})


def test_the_judge_node_outputs_every_part_of_a_verdict(host: ComfyServer) -> None:
    outputs = host.run(judged(verdict(False, "a blacker page", 0.25)))
    text = text_of(outputs)
    said = [text_of(outputs, name) for name in ("success", "probability", "prompt", "reasoning")]
    assert said == ["False", "0.25", "a blacker page", "looked"]
    assert text.startswith("Rejected, 25 % likely right") and "Refined prompt: a blacker page" in text
    assert outputs["judge"]["text"] == [text]
    outputs = host.run(judged(verdict(True, "another", 0.9), before=True, prompt="as drawn"))
    assert text_of(outputs, "success") == "True" and text_of(outputs, "prompt") == "as drawn"
    assert "Refined prompt" not in text_of(outputs)


@pytest.mark.parametrize(
    ("strictness", "accept_at", "passes"),
    [("custom", 0.95, False), ("lenient", 0.99, True), ("normal", 0.0, False)],
)
def test_strictness_wins(host: ComfyServer, strictness: str, accept_at: float, passes: bool) -> None:
    replies = [verdict(True, "", 0.4)] * 6  # one agent serves all cases
    outputs = host.run(judged(*replies, strictness=strictness, accept_at=accept_at))
    assert text_of(outputs, "success") == str(passes)
    assert ("critic's own verdict: success" in text_of(outputs)) is not passes


def test_a_missing_probability_is_not_invented(host: ComfyServer) -> None:
    outputs = host.run(judged(*[verdict(True)] * 2))
    assert text_of(outputs, "success") == "True" and "likely right" not in outputs
    assert "likely right" not in text_of(outputs) and "had no effect" not in text_of(outputs)
    strict = host.run(judged(*[verdict(True)] * 2, accept_at=0.8))
    assert text_of(strict, "success") == "True" and "accept_at had no effect" in text_of(strict)


def test_an_image_that_cannot_be_judged_raises_an_error(host: ComfyServer) -> None:
    unread = judged("What a lovely picture!", "Such a lovely picture!")
    failure(host, unread, "could not be parsed.*lovely picture")
    blank = judged(verdict(True), instruction="  ")
    refusal(host, blank, "instruction", "instruction is empty")
    failure(host, on_a_wire(blank, "judge", "instruction"), "instruction is empty")
    many = changed(judged(verdict(True)), "after", batch_size=3)
    failure(host, many, "'after': expected one image, got 3")


# Put Back


def put_back(before: str, after: str) -> Graph:
    return {
        "before": node("LoadImage", image=before),
        "after": node("LoadImage", image=after),
        "back": node("InterleavePutBack", before="@before", after="@after"),
        "saved": node("SaveImage", images="@back", filename_prefix="put-back"),
        "report": shown("back", 1),
    }


def test_pixels_are_put_back(host: ComfyServer) -> None:
    before = host.put_input(textured(), "put-before.png")
    after = host.put_input(tinted(with_change(textured())), "put-after.png")
    outputs = host.run(put_back(before, after))
    assert "The edit changed" in text_of(outputs, "report")
    image = host.image(outputs["saved"]["images"][0])
    assert difference(image, textured())[far_from_change()].max() <= 1
    assert numpy.asarray(image)[130, 150].tolist() == pytest.approx([230, 30, 60], abs=8)
    other = host.put_input(textured(5), "put-other.png")
    outputs = host.run(put_back(before, other))
    assert "Nothing was put back" in text_of(outputs, "report")
    assert difference(host.image(outputs["saved"]["images"][0]), textured(5)).max() == 0
    graph = put_back(before, other)
    for number, name in ((2, "before"), (3, "after")):
        graph[name] = node("EmptyImage", width=64, height=64, batch_size=number, color=0)
    failure(host, graph, "2 images before and 3 images after")


# One error at the wrong input


def as_sent(host: ComfyServer, kind: str, **given: Any) -> Graph:
    """A node with all of its widgets at their defaults but for these, as the front end sends it."""
    inputs = {
        name: about[1].get("default", about[1].get("options", [None])[0])
        for name, about in host.inputs_of(kind).items()
        if len(about) > 1 and ("default" in about[1] or "options" in about[1])
    }
    return {"one": node(kind, **inputs | given), "text": shown("one")}


BUILT_IN = "tiny world planner"


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("InterleaveLoadAgent", {"agent": "gone"}, "'gone' was not found.*interleave_agents.*press R"),
        ("InterleaveLoadAgent", {"agent": BUILT_IN, "precision": "int3"}, "'int3' not in .*auto"),
        ("InterleaveLoadAgent", {"agent": BUILT_IN, "adapter": "../x"}, "'../x' not in .*none"),
        ("InterleaveRemoteAgent", {"key_variable": "PATH"}, "not the name of an environment variable"),
        ("InterleaveLoadTrajectory", {"story": "gone"}, "gone"),
    ],
)
def test_an_error_is_at_its_input(host: ComfyServer, kind: str, given: dict[str, Any], said: str) -> None:
    need_checkpoints()
    refusal(host, as_sent(host, kind, **given), list(given)[-1], said)


def test_an_unreadable_plan_gives_one_error_with_any_images(host: ComfyServer) -> None:
    graph = edited("{", **{"images.image0": "@seen", "images.image1": "@seen"})
    refusal(host, graph | {"seen": node("LoadImage", image=PHOTOS[0])}, "edits", "")
