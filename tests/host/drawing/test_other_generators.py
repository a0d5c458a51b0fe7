"""Diffusers Generator and Service Generator in the real host: their images and their errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from support import tiny_pipelines
from support.gemini_api import MODEL, gemini_service, images_in
from support.image_service import ImageService, image_service
from support.images_api import images_service

from ..graphs.stories import Graph, changed, node, story
from ..server.comfy_server import ComfyServer
from ..server.runs import failure, made, pixels, text_of

COMMON: dict[str, Any] = {"width": 64, "height": 64, "steps": 2, "guidance": -1.0}
HOUSE = ["a house", "a tree"]
GEMINI = {"protocol": "Gemini API", "model": MODEL, "steps": 0}


def of_pipeline(request: str, prompts: list[str], **inputs: Any) -> Graph:
    given = {"download": False, **COMMON, **inputs}
    return story(request, prompts, generator=node("InterleaveDiffusersGenerator", **given))


def of_service(request: str, prompts: list[str], **inputs: Any) -> Graph:
    return story(request, prompts, generator=node("InterleaveServiceGenerator", **{**COMMON, **inputs}))


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


def two(host: ComfyServer, graph: Graph, size: int = 64) -> dict[str, Any]:
    """Run a graph, and check that it has two images of this size."""
    outputs = host.run(graph)
    first, second = pixels(host, outputs), pixels(host, outputs, index=1)
    assert first.shape == second.shape == (size, size, 3) and not np.array_equal(first, second)
    return outputs


def test_a_diffusers_pipeline_generates_and_edits(host: ComfyServer, pipeline: str) -> None:
    outputs = two(host, of_pipeline("diffusers", HOUSE, pipeline=pipeline))
    assert "change: colors" in text_of(outputs, "report")
    assert "Requested to load AgentModel" in host.log()


def test_a_mask_limits_the_edit(host: ComfyServer, pipeline: str) -> None:
    folder = host.base / "models" / "diffusers" / "tiny-fill"
    tiny_pipelines.flux_fill(folder)
    graph = of_pipeline("pipeline with mask", HOUSE, pipeline=folder.name, mask="@mask")
    graph["mask"] = node("SolidMask", value=1.0, width=64, height=64)
    half = changed(graph, "mask", value=0.5)
    whole = pixels(host, host.run(graph), index=1)
    assert not np.array_equal(whole, pixels(host, host.run(half), index=1))
    before = made(host, "pipeline with mask", "attempts")
    assert len(before) == 4, "another mask is another generator"
    assert np.array_equal(whole, pixels(host, host.run(graph), index=1))
    assert made(host, "pipeline with mask", "attempts") == before
    failure(host, changed(graph, "mask", value=0.0), "mask of Diffusers Generator is empty")
    failure(host, changed(graph, "generator", pipeline=pipeline), "does not support masks")


def test_a_lora_from_the_hosts_list_is_applied_to_the_pipeline(host: ComfyServer, pipeline: str) -> None:
    loras = host.base / "models" / "loras"
    save_file({"nobody.lora_A.weight": torch.ones(2, 2)}, loras / "of-another.safetensors")
    (loras / "pickled.pt").write_bytes(b"no safetensors")
    offered = host.inputs_of("InterleaveDiffusersGenerator")["lora"][1]["options"]
    assert offered[0] == "none" and "of-another.safetensors" in offered and "pickled.pt" not in offered
    graph = of_pipeline("lora", ["a"], pipeline=pipeline, lora="of-another.safetensors")
    failure(host, graph, r"Nothing in 'of-another.safetensors' fits|needs peft")
    failure(host, changed(graph, "generator", lora="../diffusers/tiny-sd/x.safetensors"), r"lora: .*not in")


def test_a_missing_pipeline_raises(host: ComfyServer) -> None:
    missing = of_pipeline("missing", ["a"], pipeline="nobody/nothing")
    failure(host, missing, r"nobody/nothing.*local model cache")


def test_two_services_share_a_story(host: ComfyServer, service: ImageService) -> None:
    with image_service() as other:
        for one in (service, other):
            one.health = {"identity": "painter/1"}
        prompts = [f"a house, {number}" for number in range(12)]
        both = f"{service.url}, {other.url}"
        graph = of_service("two services", prompts, url=both)
        assert len(host.run(graph)["out"]["images"]) == 12
        assert len(service.requests) + len(other.requests) == 12 and service.requests and other.requests
        asked = len(service.requests)
        host.run(changed(graph, "generator", url=service.url))
        assert len(service.requests) == asked, "a single one of them has the same identity"
        other.health = {"identity": "painter/2"}
        graph = changed(graph, "generator", guidance=-0.5)  # the host would take the generator from its cache
        failure(host, graph, "different models")
        host.run(changed(graph, "generator", mixed=True))
        assert len(service.requests) + len(other.requests) == 24


def test_color_match_changes_the_generators_identity(host: ComfyServer, service: ImageService) -> None:
    for match in ("off", "to the source", "to the first image"):
        two(host, of_service("matched", HOUSE, url=service.url, color_match=match))
    assert len(made(host, "matched", "attempts")) >= 5


@pytest.mark.parametrize("hosted", [False, True])
def test_a_server_of_the_images_api_generates_and_edits(host: ComfyServer, hosted: bool) -> None:
    with images_service(hosted) as server:
        api = {"protocol": "OpenAI Images API", "model": "painter", **({"steps": 0} if hosted else {})}
        two(host, of_service(f"images api {hosted}", HOUSE, url=server.url, **api))
        drawn = [one for one in server.requests if "response_format" not in one or not hosted]
        assert [len(one.get("images", [])) for one in drawn] == [0, 1]
        assert all(("seed" in one) is not hosted for one in drawn)


def test_the_gemini_api_generates_and_edits(host: ComfyServer) -> None:
    with gemini_service() as server:
        graph = of_service("gemini", HOUSE, url=server.url, **GEMINI)
        two(host, graph, 1024)
        (edited,) = images_in(server.requests[1])
        assert not images_in(server.requests[0]) and edited.size == (512, 512)
        failure(host, changed(graph, "generator", steps=4), "does not accept the option 'steps'")


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"protocol": "Gemini API"}, "not a valid model name for the Gemini API"),
        ({"protocol": "Gemini API", "model": "m", "url": "http://127.0.0.1:8011"}, "Clear the URL"),
        ({"protocol": "Gemini API", "model": "m", "url": "", "steps": 0}, "GEMINI_API_KEY is not set"),
        ({"model": "painter"}, "only for the OpenAI Images API"),
        ({"url": "http://127.0.0.1:9"}, "[0-9] attempts"),
        ({"width": 64, "height": 0}, "Only one of width and height"),
    ],
)
def test_unfit_services(host: ComfyServer, service: ImageService, inputs: dict[str, Any], words: str) -> None:
    failure(host, of_service(f"bad {inputs}", ["a"], **{"url": service.url, **inputs}), words)
