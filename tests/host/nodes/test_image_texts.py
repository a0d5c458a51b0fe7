"""Images and their texts come out of a loop as lists of one length, for nodes that take one of each."""

from __future__ import annotations

from ..graphs.attempt_pairs import pair
from ..graphs.klein import node
from ..graphs.plans import edited
from ..server.comfy_server import ComfyServer

STORY = """1. Boat
   draw: a red boat
   text: A boat.

2. Words
   text: Only words.

3. Moon
   draw: add a moon
   text: A moon."""
TEXTS = ["A boat.\n\nOnly words.", "A moon."]


def test_a_critic_loop_has_a_text_for_every_image(host: ComfyServer) -> None:
    graph = edited(STORY, request="image texts") | {
        "generator": node("InterleaveTinyWorldGenerator"),
        "loop": node(
            "InterleaveCriticLoop",
            plan="@edit", generator="@generator", max_attempts=1, accept_at=0.0, keep="best",
            source="previous", on_failure="keep", seed=1,
        ),
        "steps": node("PreviewAny", source=["loop", 1]),
        "texts": node("PreviewAny", source=["loop", 4]),
        "images": node("PreviewImage", images="@loop"),
    }  # fmt: skip
    outputs = host.run(graph)
    assert outputs["texts"]["text"] == TEXTS
    assert len(outputs["images"]["images"]) == len(TEXTS)
    assert outputs["steps"]["text"] == ["A boat.", "Only words.", "A moon."]


def test_attempt_end_has_a_text_for_every_image(host: ComfyServer) -> None:
    graph = edited(STORY, request="image texts of attempts") | pair("", 1, plan=["edit", 0])
    graph["texts"] = node("PreviewAny", source=["close", 6])
    outputs = host.run(graph)
    assert outputs["texts"]["text"] == TEXTS
    assert len(outputs["out"]["images"]) == len(TEXTS)
