"""LoRA and size of one step of Edit Plan: equal to connected ones, in that step only, or one error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from ..graphs.families import CLIP, MODEL, Graph, ours
from ..graphs.klein import node
from ..server.comfy_server import ComfyServer, HostError
from ..server.pixels import PHOTO_SIZE as SIZE
from ..server.pixels import differ, pixels, same
from ..server.runs import journals

STYLE = "styles/step-style.safetensors"
WORDS = "step-words.safetensors"
FOREIGN = "step-foreign.safetensors"
UNET = "diffusion_model.time_embed.0"
ENCODER = "text_encoders.clip_l.transformer.text_model.encoder.layers.0.mlp.fc1"
DRAWN = {"cfg": 3.0, "negative": "blurry", "seed": 13}


def save_lora(path: Path, part: str, rows: int, columns: int, seed: int = 0) -> None:
    """Write a random LoRA of one linear layer with a weight `(rows, columns)`."""
    noise = torch.Generator().manual_seed(seed)
    weights = {
        f"{part}.lora_A.weight": torch.randn(4, columns, generator=noise),
        f"{part}.lora_B.weight": torch.randn(rows, 4, generator=noise),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(weights, path)


@pytest.fixture(scope="module")
def loras(host: ComfyServer) -> Iterator[Path]:
    folder = host.base / "models" / "loras"
    save_lora(folder / STYLE, UNET, 256, 64)
    save_lora(folder / WORDS, ENCODER, 64, 32)
    save_lora(folder / FOREIGN, "nobody", 2, 2)
    yield folder
    for name in (STYLE, WORDS, FOREIGN):
        (folder / name).unlink()


def by_hand(graph: Graph, *settings: str) -> Graph:
    """The story with lines of settings for each of its steps, which are generated from text."""
    graph = {name: {**one, "inputs": dict(one["inputs"])} for name, one in graph.items()}
    steps = (
        f"{number}. Step\n   draw: a fox\n   seed: 5\n   source: text\n   {lines}"
        for number, lines in enumerate(settings, 1)
    )
    graph["edit"] = node("InterleaveEditPlan", plan="@plan", edits="\n".join(steps))
    graph["loop"]["inputs"]["plan"] = ["edit", 0]
    return graph


def images(host: ComfyServer, request: str, *settings: str) -> list[np.ndarray]:
    outputs = host.run(by_hand(ours("sd15", request, ["a fox"], SIZE, **DRAWN), *settings))
    return [pixels(host, outputs, index=index) for index in range(len(settings))]


@pytest.mark.parametrize("name", [STYLE, WORDS], ids=["model", "text encoder"])
@pytest.mark.parametrize("strength", [1.0, -0.5])
def test_a_steps_lora_acts_like_a_connected_one(
    host: ComfyServer, loras: Path, name: str, strength: float
) -> None:
    story = ours("sd15", f"lora of a step {name} {strength}", ["a fox"], SIZE, **DRAWN)
    connected = by_hand(ours("sd15", f"lora on a wire {name} {strength}", ["a fox"], SIZE, **DRAWN), "")
    strengths = {"strength_model": strength, "strength_clip": strength}
    connected["lora"] = node("LoraLoader", model=MODEL, clip=CLIP, lora_name=name, **strengths)
    connected["generator"]["inputs"] |= {"model": ["lora", 0], "clip": ["lora", 1]}
    drawn = same(host, by_hand(story, f"lora: {name}\n   lora_strength: {strength}"), connected)
    differ(host, drawn, by_hand(story, ""), 0.02)


def test_a_lora_is_applied_in_its_step_only(host: ComfyServer, loras: Path) -> None:
    request = "lora in one step"
    plain, styled, again, worded = images(host, request, "", f"lora: {STYLE}", "", f"lora: {WORDS}")
    np.testing.assert_array_equal(plain, again)
    assert len({one.tobytes() for one in (plain, styled, worded)}) == 3
    (folder,) = journals(host, request)
    records = len(list((folder / "attempts").iterdir()))
    assert records == 3, "the third image is that of the first, cached"
    weak = images(host, request, "", f"lora: {STYLE}\n   lora_strength: 0.1", "", f"lora: {WORDS}")
    np.testing.assert_array_equal(weak[3], worded)
    assert len(list((folder / "attempts").iterdir())) == records + 1, "only the changed step is generated"
    # A LoRA that was trained again under the same name: another identity, so that step is generated again.
    save_lora(loras / STYLE, UNET, 256, 64, seed=1)
    retrained = images(host, request, "", f"lora: {STYLE}", "", f"lora: {WORDS}")
    assert not np.array_equal(retrained[1], styled)
    np.testing.assert_array_equal(retrained[0], plain)
    assert len(list((folder / "attempts").iterdir())) == records + 2


def test_a_step_has_its_own_size(host: ComfyServer, photos: tuple[str, str, str]) -> None:
    first, second, third = images(host, "size of a step", "", "size: 192x64", "")
    assert (first.shape, second.shape) == ((128, 128, 3), (64, 192, 3))
    np.testing.assert_array_equal(first, third)
    edits = (
        "1. Fox\n   draw: a fox\n2. Sun\n   draw: add a sun\n   size: 64x128\n3. Moon\n   draw: add a moon"
    )
    story = ours("sd15", "size of an edit", ["a fox"], SIZE, image=photos[0], denoise=0.7, **DRAWN)
    story["edit"] = node("InterleaveEditPlan", plan="@plan", edits=edits)
    story["loop"]["inputs"]["plan"] = ["edit", 0]
    outputs = host.run(story)
    shapes = [pixels(host, outputs, index=index).shape for index in range(3)]
    assert shapes[:2] == [(128, 128, 3), (128, 64, 3)], "cropped to the step's shape"
    assert shapes[2][0] > shapes[2][1], "the next step edits the tall image at its shape"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("lora: nowhere.safetensors", r"Step 2, lora: 'nowhere\.safetensors' does not exist in models/loras"),
        ("lora: ../loras/step-words.safetensors", "lora: it must be the name of a file in the LoRA folder"),
        (f"lora: {FOREIGN}", r"Step 2: Nothing in the LoRA 'step-foreign\.safetensors' fits the connected"),
        (f"lora: {STYLE}\n   lora_strength: 101", "lora_strength: it must be .*100"),
        ("size: 64", "size: it must be WIDTHxHEIGHT"),
    ],
)
def test_an_impossible_lora_or_size_raises_one_line(
    host: ComfyServer, loras: Path, settings: str, reason: str
) -> None:
    request = f"refused own {settings.split()[1][:12]}".replace("/", " ").replace(".", " ")
    with pytest.raises(HostError, match=reason):
        images(host, request, "", settings)
    assert not [*(path for folder in journals(host, request) for path in (folder / "attempts").glob("*"))]


def test_a_generator_without_loras_refuses_them(host: ComfyServer, loras: Path) -> None:
    graph = by_hand(ours("sd15", "tiny world lora", ["a fox"], SIZE), f"lora: {STYLE}", "", f"lora: {STYLE}")
    graph["generator"] = node("InterleaveTinyWorldGenerator")
    with pytest.raises(HostError, match="Steps 1, 3 set their own lora, but this generator does not support"):
        host.run(graph)


def test_a_connected_guider_refuses_a_lora(host: ComfyServer, loras: Path) -> None:
    graph = by_hand(ours("sd15", "guided lora", ["a fox"], SIZE, seed=13), f"lora: {STYLE}")
    graph |= {
        "text": node("CLIPTextEncode", clip=CLIP, text="a fox"),
        "guider": node("CFGGuider", model=MODEL, positive="@text", negative="@text", cfg=3.0),
        "options": node("InterleaveStepOptions", guider="@guider"),
    }
    graph["generator"]["inputs"]["options"] = ["options", 0]
    with pytest.raises(HostError, match="Step 1 sets its own lora, but this generator does not support lora"):
        host.run(graph)
