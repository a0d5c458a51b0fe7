"""Errors if model, CLIP, VAE, edit method or a setting do not match: one line with advice."""

from __future__ import annotations

from typing import Any

import pytest

from ..graphs.families import Graph, ours
from ..graphs.klein import node
from ..server.comfy_server import ComfyServer, HostError
from ..server.pixels import PHOTO_SIZE as SIZE


def failure(host: ComfyServer, graph: Graph) -> str:
    with pytest.raises(HostError) as error:
        host.run(graph)
    words = str(error.value)
    assert "Traceback" not in words and len(words.strip().splitlines()) == 1, words
    return words


@pytest.mark.parametrize(
    ("family", "edit", "words"),
    [
        ("flux1", "auto", "'flux kontext' for Kontext"),
        ("qwen image", "auto", "'qwen image edit plus' for Qwen-Image-Edit-2509"),
        ("sdxl", "reference latents", "do not support reference latents"),
        ("sd15", "flux kontext", "is for a FLUX.1 model"),
        ("wan video", "auto", "video model"),
        ("wan video", "image to image", "video model"),
    ],
)
def test_an_edit_mode_that_does_not_fit(host: ComfyServer, family: str, edit: str, words: str) -> None:
    assert words in failure(host, ours(family, "unfit", ["a fox"], SIZE, edit=edit))


@pytest.mark.parametrize(
    ("family", "options", "words"),
    [
        ("sd15", {"references": 1}, "reference images are connected"),
        ("qwen image", {"references": 3, "edit": "qwen image edit plus"}, "at most 2 in addition"),
        ("z-image", {"guidance": 3.0}, "no guidance in addition to cfg"),
    ],
)
def test_a_setting_that_would_be_ignored_is_rejected(
    host: ComfyServer, photos: tuple[str, str, str], family: str, options: dict[str, Any], words: str
) -> None:
    count = options.pop("references", 0) if "references" in options else 0
    graph = ours(family, "ignored", ["a fox"], SIZE, references=photos[:count], **options)
    assert words in failure(host, graph)


def with_part(family: str, part: str, other: str, edit: str = "auto") -> Graph:
    graph = ours(family, f"{part} of {other} for {family}", ["a fox"], SIZE, edit=edit)
    graph["other"] = node("InterleaveTestFamily", family=other)
    graph["generator"]["inputs"][part] = ["other", {"clip": 1, "vae": 2}[part]]
    return graph


@pytest.mark.parametrize(
    ("family", "other"),
    [("flux2 dev", "sd15"), ("sd15", "flux2 dev"), ("sd15", "z-image"), ("omnigen2", "qwen image")],
)
def test_a_vae_of_another_family_raises(host: ComfyServer, family: str, other: str) -> None:
    words = failure(host, with_part(family, "vae", other))
    assert "VAE does not belong to" in words and "Connect the VAE" in words


@pytest.mark.parametrize(
    ("family", "other"), [("flux2 dev", "sd15"), ("sd15", "z-image"), ("z-image", "sdxl"), ("sdxl", "sd15")]
)
def test_a_text_encoder_of_another_family_raises(host: ComfyServer, family: str, other: str) -> None:
    words = failure(host, with_part(family, "clip", other))
    assert "text encoder does not belong to" in words or "CLIP or VAE belongs to another model" in words


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        ("", "does not fit into the GPU's memory"),
        (
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory",
            "does not fit into memory",
        ),
        (
            "mat1 and mat2 shapes cannot be multiplied (77x768 and 4096x3072)",
            "CLIP or VAE belongs to another",
        ),
        ("a fault of its own", "RuntimeError: a fault of its own"),
    ],
)
def test_a_failure_in_the_middle_of_sampling(host: ComfyServer, raised: str, words: str) -> None:
    graph = ours("sd15", f"failing {raised}", ["a fox"], SIZE)
    graph["failing"] = node("InterleaveTestFailingModel", model=["family", 0], words=raised)
    graph["generator"]["inputs"]["model"] = ["failing", 0]
    assert words in failure(host, graph)


def test_the_next_prompt_runs_after_a_failure(host: ComfyServer) -> None:
    assert host.run(ours("sd15", "after a failure", ["a fox"], SIZE))["out"]["images"]
