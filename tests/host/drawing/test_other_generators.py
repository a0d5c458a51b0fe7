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

from ..graphs.klein import Graph, node, story
from ..server.comfy_server import ComfyServer, HostError
from ..server.pixels import pixels
from ..server.runs import journals

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


def test_a_diffusers_pipeline_generates_and_edits(host: ComfyServer, pipeline: str) -> None:
    graph = drawn_by(
        "InterleaveDiffusersGenerator", "diffusers", ["a house", "a tree"], pipeline=pipeline, download=False
    )
    outputs = host.run(graph)
    first, second = pixels(host, outputs), pixels(host, outputs, index=1)
    assert first.shape == second.shape == (64, 64, 3) and not np.array_equal(first, second)
    assert "drift: color" in outputs["report"]["text"][0]
    assert "Requested to load AgentModel" in host.log_path.read_text(errors="replace")


def draws_of(host: ComfyServer, request: str) -> int:
    """Return the recorded attempts in the journals of a request."""
    return sum(len(list((folder / "attempts").iterdir())) for folder in journals(host, request))


def test_a_mask_limits_the_edit(host: ComfyServer) -> None:
    folder = host.base / "models" / "diffusers" / "tiny-fill"
    folder.parent.mkdir(parents=True, exist_ok=True)
    tiny_pipelines.flux_fill(folder)

    def drawn(value: float, **inputs: Any) -> np.ndarray:
        graph = drawn_by(
            "InterleaveDiffusersGenerator", "pipeline with mask", ["a house", "a tree"], pipeline="tiny-fill",
            download=False, mask="@mask", **inputs,
        )  # fmt: skip
        graph["mask"] = node("SolidMask", value=value, width=64, height=64)
        return pixels(host, host.run(graph), index=1)

    whole = drawn(1.0)
    assert not np.array_equal(whole, drawn(0.5))
    assert draws_of(host, "pipeline with mask") == 4, "another mask is another generator"
    assert np.array_equal(whole, drawn(1.0)) and draws_of(host, "pipeline with mask") == 4
    with pytest.raises(HostError, match="mask of Diffusers Generator is empty"):
        drawn(0.0)


def test_a_mask_that_the_pipeline_would_ignore_is_rejected(host: ComfyServer, pipeline: str) -> None:
    graph = drawn_by(
        "InterleaveDiffusersGenerator", "no mask", ["a"], pipeline=pipeline, download=False, mask="@mask"
    )
    graph["mask"] = node("SolidMask", value=1.0, width=64, height=64)
    with pytest.raises(HostError, match="does not support masks"):
        host.run(graph)


def test_a_lora_from_the_hosts_list_is_applied_to_the_pipeline(host: ComfyServer, pipeline: str) -> None:
    loras = host.base / "models" / "loras"
    loras.mkdir(parents=True, exist_ok=True)
    save_file({"nobody.lora_A.weight": torch.ones(2, 2)}, loras / "of-another.safetensors")
    (loras / "pickled.pt").write_bytes(b"no safetensors")

    def drawn(lora: str) -> None:
        host.run(
            drawn_by(
                "InterleaveDiffusersGenerator", "lora", ["a"], pipeline=pipeline, download=False, lora=lora
            )
        )

    inputs = host.get("/object_info/InterleaveDiffusersGenerator")["InterleaveDiffusersGenerator"]["input"]
    offered = inputs["optional"]["lora"][1]["options"]
    assert offered[0] == "none" and "of-another.safetensors" in offered and "pickled.pt" not in offered
    with pytest.raises(HostError, match=r"Nothing in 'of-another.safetensors' fits|needs peft"):
        drawn("of-another.safetensors")
    with pytest.raises(HostError, match=r"lora: .*not in"):
        drawn("../diffusers/tiny-sd/unet/diffusion_pytorch_model.safetensors")


@pytest.mark.parametrize("name", ["", "../agents", "/etc", "no-such-folder"])
def test_a_missing_pipeline_raises(host: ComfyServer, pipeline: str, name: str) -> None:
    graph = drawn_by("InterleaveDiffusersGenerator", "missing", ["a"], pipeline=name, download=False)
    with pytest.raises(HostError, match=r"was not found in .*tiny-sd"):
        host.run(graph)


def test_nothing_is_downloaded_by_default(host: ComfyServer) -> None:
    graph = drawn_by("InterleaveDiffusersGenerator", "hub", ["a"], pipeline="nobody/nothing", download=False)
    with pytest.raises(HostError, match=r"nobody/nothing.*local model cache"):
        host.run(graph)


def test_a_service_generates_and_edits(host: ComfyServer, service: ImageService) -> None:
    graph = drawn_by("InterleaveServiceGenerator", "service", ["a house", "a tree"], url=service.url)
    outputs = host.run(graph)
    assert not np.array_equal(pixels(host, outputs), pixels(host, outputs, index=1))


def test_two_services_share_a_story(host: ComfyServer, service: ImageService) -> None:
    with image_service() as other:
        for one in (service, other):
            one.health = {"identity": "painter/1"}
        prompts = [f"a house, {number}" for number in range(12)]
        both = f"{service.url}, {other.url}"
        outputs = host.run(drawn_by("InterleaveServiceGenerator", "two services", prompts, url=both))
        assert len(outputs["out"]["images"]) == 12
        assert len(service.requests) + len(other.requests) == 12 and service.requests and other.requests
        asked = len(service.requests)
        host.run(drawn_by("InterleaveServiceGenerator", "two services", prompts, url=service.url))
        assert len(service.requests) == asked, "a single one of them has the same identity"
        other.health = {"identity": "painter/2"}
        graph = drawn_by("InterleaveServiceGenerator", "two services", prompts, url=both)
        with pytest.raises(HostError, match="different models"):
            host.run(graph)
        graph["generator"]["inputs"]["mixed"] = True
        host.run(graph)
        assert len(service.requests) + len(other.requests) == 24


@pytest.mark.parametrize("hosted", [False, True])
def test_a_server_of_the_images_api_generates_and_edits(host: ComfyServer, hosted: bool) -> None:
    with images_service(hosted) as server:
        inputs = {"steps": 0} if hosted else {}
        graph = drawn_by(
            "InterleaveServiceGenerator", f"images api {hosted}", ["a house", "a tree"], url=server.url,
            protocol="OpenAI Images API", model="painter", **inputs,
        )  # fmt: skip
        outputs = host.run(graph)
        first, second = pixels(host, outputs), pixels(host, outputs, index=1)
        assert first.shape == second.shape == (64, 64, 3) and not np.array_equal(first, second)
        drawn = [one for one in server.requests if "response_format" not in one or not hosted]
        assert [len(one.get("images", [])) for one in drawn] == [0, 1]
        assert all(("seed" in one) is not hosted for one in drawn)


def test_the_gemini_api_generates_and_edits(host: ComfyServer) -> None:
    api = {"protocol": "Gemini API", "model": MODEL, "steps": 0}
    with gemini_service() as server:
        graph = drawn_by(
            "InterleaveServiceGenerator", "gemini", ["a house", "a tree"], **{**api, "url": server.url}
        )
        outputs = host.run(graph)
        assert pixels(host, outputs).shape == pixels(host, outputs, index=1).shape == (1024, 1024, 3)
        (edited,) = images_in(server.requests[1])
        assert not images_in(server.requests[0]) and edited.size == (512, 512)
        graph["generator"]["inputs"]["steps"] = 4
        with pytest.raises(HostError, match="does not accept the option 'steps'"):
            host.run(graph)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"protocol": "Gemini API"}, "not a valid model name for the Gemini API"),
        ({"protocol": "Gemini API", "model": "m", "url": "http://127.0.0.1:8011"}, "Clear the URL"),
        ({"protocol": "Gemini API", "model": "m", "url": "", "steps": 0}, "GEMINI_API_KEY is not set"),
        ({"protocol": "Gemini API", "model": "m", "extras": "seed"}, "only for the OpenAI Images API"),
        ({"protocol": "OpenAI Images API"}, "not a valid model name"),
        ({"model": "painter"}, "only for the OpenAI Images API"),
        ({"url": "http://127.0.0.1:9,@/etc/hosts"}, "not a valid URL of a service"),
        ({"url": "file:///etc/passwd"}, "not a valid URL of a service"),
        ({"url": "http://127.0.0.1:9"}, "[0-9] attempts"),
        ({"width": 64, "height": 0}, "Only one of width and height"),
    ],
)
def test_a_service_that_cannot_be_used(
    host: ComfyServer, service: ImageService, inputs: dict[str, Any], words: str
) -> None:
    graph = drawn_by("InterleaveServiceGenerator", f"bad {inputs}", ["a"], **{"url": service.url, **inputs})
    with pytest.raises(HostError, match=words):
        host.run(graph)


def test_color_match_changes_the_generators_identity(host: ComfyServer, service: ImageService) -> None:
    for match in ("off", "to the source", "to the first image"):
        graph = drawn_by(
            "InterleaveServiceGenerator", "matched", ["a", "b"], url=service.url, color_match=match
        )
        assert len(host.run(graph)["out"]["images"]) == 2
    folders = list((host.base / "output" / "interleave-thinker").glob("matched-*"))
    assert len(folders) == 1 and len(list((folders[0] / "attempts").iterdir())) >= 5
