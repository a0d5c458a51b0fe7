"""Diffusers Generator and Service Generator in the real host: what they draw, and what is said when they
cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support import tiny_pipelines
from support.image_service import ImageService, image_service

from ..graphs.klein import Graph, node, story
from ..server.comfy_server import ComfyServer, HostError
from ..server.pixels import pixels

COMMON: dict[str, Any] = {"width": 64, "height": 64, "steps": 2, "guidance": -1.0}


def drawn_by(class_type: str, request: str, prompts: list[str], **inputs: Any) -> Graph:
    graph = story(request, prompts, (64, 64))
    for name in ("model", "clip", "vae"):
        del graph[name]
    graph["generator"] = node(class_type, **{**COMMON, **inputs})
    return graph


@pytest.fixture(scope="module")
def pipeline(host: ComfyServer) -> str:
    folder = host.base / "models" / "diffusers" / "tiny-sd"
    folder.parent.mkdir(parents=True, exist_ok=True)
    tiny_pipelines.stable_diffusion(folder)
    return folder.name


@pytest.fixture
def service() -> Iterator[ImageService]:
    with image_service() as running:
        yield running


def test_a_diffusers_pipeline_draws_and_edits(host: ComfyServer, pipeline: str) -> None:
    graph = drawn_by(
        "InterleaveDiffusersGenerator", "diffusers", ["a house", "a tree"], pipeline=pipeline, download=False
    )
    outputs = host.run(graph)
    first, second = pixels(host, outputs), pixels(host, outputs, index=1)
    assert first.shape == second.shape == (64, 64, 3) and not np.array_equal(first, second)
    assert "drift: colour" in outputs["report"]["text"][0]
    assert "Requested to load AgentModel" in host.log_path.read_text(errors="replace")


@pytest.mark.parametrize("name", ["", "../agents", "/etc", "no-such-folder"])
def test_a_pipeline_that_is_not_there(host: ComfyServer, pipeline: str, name: str) -> None:
    graph = drawn_by("InterleaveDiffusersGenerator", "missing", ["a"], pipeline=name, download=False)
    with pytest.raises(HostError, match=r"neither a diffusers pipeline in .*tiny-sd"):
        host.run(graph)


def test_nothing_is_downloaded_unasked(host: ComfyServer) -> None:
    graph = drawn_by("InterleaveDiffusersGenerator", "hub", ["a"], pipeline="nobody/nothing", download=False)
    with pytest.raises(HostError, match=r"nobody/nothing.*local model cache"):
        host.run(graph)


def test_a_service_draws_and_edits(host: ComfyServer, service: ImageService) -> None:
    graph = drawn_by("InterleaveServiceGenerator", "service", ["a house", "a tree"], url=service.url)
    outputs = host.run(graph)
    assert not np.array_equal(pixels(host, outputs), pixels(host, outputs, index=1))


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"url": "file:///etc/passwd"}, "not the URL of a service"),
        ({"url": "http://127.0.0.1:9"}, "failed 3 times"),
        ({"width": 64, "height": 0}, "Only one of width and height"),
    ],
)
def test_a_service_that_cannot_be_used(
    host: ComfyServer, service: ImageService, inputs: dict[str, Any], words: str
) -> None:
    graph = drawn_by("InterleaveServiceGenerator", f"bad {inputs}", ["a"], **{"url": service.url, **inputs})
    with pytest.raises(HostError, match=words):
        host.run(graph)


def test_a_colour_match_is_another_generator(host: ComfyServer, service: ImageService) -> None:
    for match in ("off", "to the source", "to the first image"):
        graph = drawn_by(
            "InterleaveServiceGenerator", "matched", ["a", "b"], url=service.url, color_match=match
        )
        assert len(host.run(graph)["out"]["images"]) == 2
    folders = list((host.base / "output" / "interleave-thinker").glob("matched-*"))
    assert len(folders) == 1 and len(list((folders[0] / "attempts").iterdir())) >= 5
