"""The example graphs run in the real host: the tiny world with its trained agents, klein with tiny random weights."""

from __future__ import annotations

from .comfy_server import ComfyServer
from .example_graphs import NAMES, id_of, lend_agent, made_small, need_checkpoints, twin


def test_the_host_lists_both_as_templates_with_a_picture(host: ComfyServer) -> None:
    assert set(host.get("/workflow_templates")["interleave-thinker"]) == set(NAMES)
    for name in NAMES:
        assert host.get(f"/api/workflow_templates/interleave-thinker/{name}.json")["nodes"]
        picture = host.download(f"/api/workflow_templates/interleave-thinker/{name}.jpg")
        assert picture.format == "JPEG" and max(picture.size) <= 1024


def test_the_tiny_world_story_is_told(host: ComfyServer) -> None:
    need_checkpoints()
    graph = twin("tiny_world_story")
    outputs = host.run(graph)
    shown = outputs[id_of(graph, "InterleaveCriticLoop")]["images"]
    assert len(shown) >= 3
    assert host.image(shown[0]).size == (96, 96)
    (sheet,) = outputs[id_of(graph, "InterleaveStoryboard")]["images"]
    assert host.image(sheet).size[0] > 300


def test_the_klein_story_runs_with_tiny_weights(host: ComfyServer) -> None:
    need_checkpoints()
    lend_agent(host)
    graph = made_small(twin("flux2_klein_4b_story"))
    outputs = host.run(graph)
    shown = outputs[id_of(graph, "InterleaveCriticLoop")]["images"]
    assert len(shown) == 2
    assert host.image(shown[0]).size == (128, 128)
