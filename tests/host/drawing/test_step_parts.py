"""Parts of a graph or of one step act as in an official graph that is wired by hand with them.

These are guider, sampler, sigmas, noise, negative, ControlNet and mask of Step Options, and mask, reference,
LoRA and size of one step of Edit Plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from interleave_thinker.backend.story.loop.policy import attempt_seed

from ..graphs.official import (
    CLIP,
    MODEL,
    VAE,
    Graph,
    custom_sampler,
    empty,
    ksampler,
    loaded,
    ours,
    sources,
    text,
    total_pixels,
)  # fmt: skip
from ..graphs.stories import by_hand, changed, node
from ..server.comfy_server import ComfyServer
from ..server.runs import PHOTO_SIZE as SIZE
from ..server.runs import PHOTOS, differ, journal, made, need_family, pixels, same

SEED = 13
DRAWN = attempt_seed(SEED, 1, 0)
FIRST = "a fox"
BLURRY = {"cfg": 3.0, "negative": "blurry", "seed": SEED}
EDIT = {"image": PHOTOS[0], "denoise": 0.7, **BLURRY}
HOLE = (32, 32, 96, 96)
MIN_DIFF = 0.02


def sd15(request: str, **options: Any) -> Graph:
    return ours("sd15", request, [FIRST], SIZE, **options)


def with_options(graph: Graph, parts: Graph, **inputs: Any) -> Graph:
    """A story whose Step Generator is given these inputs of Step Options."""
    options = node("InterleaveStepOptions", **inputs)
    return changed(graph | parts | {"options": options}, "generator", options="@options")


def encoded(words: str) -> dict[str, Any]:
    return node("CLIPTextEncode", clip=CLIP, text=words)


def source_latent() -> Graph:
    return sources(PHOTOS[:1]) | {"latent": node("VAEEncode", pixels="@source1", vae=VAE)}


# A graph's own sampling: a guider with prompts of its own, an ancestral sampler, Karras' sigmas

SAMPLING = {
    "any": encoded("anything"),
    "own_guider": node("CFGGuider", model=MODEL, positive="@any", negative="@any", cfg=3.0),
    "own_sampler": node("SamplerEulerAncestral", eta=0.7, s_noise=1.0),
    "own_sigmas": node("KarrasScheduler", steps=4, sigma_max=14.6, sigma_min=0.03, rho=7.0),
    "own_noise": node("RandomNoise", noise_seed=99),
}
OWN = {"guider": "@own_guider", "sampler": "@own_sampler", "sigmas": "@own_sigmas", "noise": "@own_noise"}


def sampled_by_hand(latent: Graph, sigmas: Any = "@own_sigmas") -> Graph:
    """The same sampling with the step's prompts."""
    guider = node("CFGGuider", model=MODEL, positive="@positive", negative="@negative", cfg=3.0)
    graph = loaded("sd15") | text(FIRST, "blurry") | SAMPLING | latent
    graph |= custom_sampler(DRAWN, guider, {})
    return changed(graph, "sampled", sampler="@own_sampler", sigmas=sigmas)


def test_guider_sampler_sigmas_and_noise(host: ComfyServer) -> None:
    story = sd15("own sampling", seed=SEED, cfg=7.0, negative="blurry")
    theirs = sampled_by_hand(empty("EmptyLatentImage", SIZE))
    del theirs["sigmas"]
    drawn = same(host, with_options(story, SAMPLING, **OWN), theirs)
    differ(host, drawn, story, MIN_DIFF)
    # An edit uses the last part of the sigmas.
    edit = sd15("own sampling of an edit", **{**EDIT, "denoise": 0.5})
    split = node("SplitSigmasDenoise", sigmas="@own_sigmas", denoise=0.5)
    theirs = sampled_by_hand(source_latent(), ["split", 1]) | {"split": split}
    del theirs["sigmas"]
    same(host, with_options(edit, SAMPLING, **OWN), theirs)


@pytest.mark.parametrize("cfg", [1.0, 5.0])
def test_a_basic_guider_has_no_negative(host: ComfyServer, cfg: float) -> None:
    parts = {"any": encoded("x"), "basic": node("BasicGuider", model=MODEL, conditioning="@any")}
    mine = with_options(sd15("basic", seed=SEED, cfg=cfg), parts, guider="@basic")
    guider = node("BasicGuider", model=MODEL, conditioning="@positive")
    sigmas = node("BasicScheduler", model=MODEL, scheduler="simple", steps=2, denoise=1.0)
    theirs = loaded("sd15") | {"positive": encoded(FIRST)} | empty("EmptyLatentImage", SIZE)
    same(host, mine, theirs | custom_sampler(DRAWN, guider, sigmas))


def test_ideogram4_with_its_second_model_and_schedule(host: ComfyServer) -> None:
    need_family(host, "ideogram4")
    width, height = size = 256, 256
    guider = {"model": "@strong", "model_negative": ["second", 0], "cfg": 7.0}
    sigmas = node("Ideogram4Scheduler", steps=3, width=width, height=height, mu=0.0, std=1.75)
    parts = {
        "second": node("InterleaveTestFamily", family="ideogram4"),
        "strong": node("CFGOverride", model=MODEL, cfg=3.0, start_percent=0.7, end_percent=1.0),
        "any": encoded("x"),
        "dual": node("DualModelGuider", positive="@any", negative="@any", **guider),
        "sigmas4": sigmas,
    }
    mine = ours("ideogram4", "template", [FIRST], size, seed=SEED)
    theirs = loaded("ideogram4") | text(FIRST) | parts | empty("EmptyFlux2LatentImage", size)
    dual = node("DualModelGuider", positive="@positive", negative="@negative", **guider)
    same(
        host,
        with_options(mine, parts, guider="@dual", sigmas="@sigmas4"),
        theirs | custom_sampler(DRAWN, dual, sigmas),
    )


def control(image: str, positive: str, negative: str) -> Graph:
    return {
        "hint": node("LoadImage", image=image),
        "net": node("InterleaveTestControlNet", seed=8),
        "applied": node(
            "ControlNetApplyAdvanced",
            positive=positive, negative=negative, control_net="@net", image="@hint", strength=0.8,
            start_percent=0.0, end_percent=1.0,
        ),
    }  # fmt: skip


@pytest.mark.parametrize("edit", [False, True], ids=["text", "edit"])
def test_control_net_on_every_step(host: ComfyServer, edit: bool) -> None:
    story = sd15(f"control {edit}", **(EDIT if edit else BLURRY))
    parts = {"any": encoded("anything")} | control(PHOTOS[1], "@any", "@any")
    theirs = loaded("sd15") | text(FIRST, "blurry") | control(PHOTOS[1], "@positive", "@negative")
    theirs |= source_latent() if edit else empty("EmptyLatentImage", SIZE)
    ends: dict[str, Any] = {"positive": ["applied", 0], "negative": ["applied", 1]}
    theirs |= ksampler(DRAWN, "@latent", 3.0, 0.7 if edit else 1.0, **ends)
    drawn = same(host, with_options(story, parts, conditioning="@applied"), theirs)
    differ(host, drawn, story, MIN_DIFF)


# Masks

MASK = {
    "black": node("SolidMask", value=0.0, width=SIZE[0], height=SIZE[1]),
    "white": node("SolidMask", value=1.0, width=64, height=64),
    "mask": node("MaskComposite", destination="@black", source="@white", x=32, y=32, operation="add"),
}
"""White in the middle."""


def pasted(graph: Graph) -> Graph:
    """Return a hand-wired graph whose latent is masked and whose image is pasted over the source."""
    return graph | MASK | {
        "unmasked": graph["latent"],
        "latent": node("SetLatentNoiseMask", samples="@unmasked", mask="@mask"),
        "pasted": node(
            "ImageCompositeMasked",
            destination="@source1", source="@decoded", x=0, y=0, resize_source=False, mask="@mask",
        ),
        "out": node("SaveImage", images="@pasted", filename_prefix="official"),
    }  # fmt: skip


def test_a_mask_limits_the_edit(host: ComfyServer) -> None:
    mine = with_options(sd15("masked", **EDIT), MASK, mask="@mask")
    theirs = loaded("sd15") | text(FIRST, "blurry") | source_latent() | ksampler(DRAWN, "@latent", 3.0, 0.7)
    drawn = same(host, mine, pasted(theirs))
    source = pixels(host, {"out": {"images": [{"filename": PHOTOS[0], "type": "input", "subfolder": ""}]}})
    outside = np.ones(SIZE, bool)
    outside[32:96, 32:96] = False
    np.testing.assert_array_equal(drawn[outside], source[outside])
    assert np.abs(drawn[~outside].astype(int) - source[~outside]).mean() > 1


def test_a_masked_edit_by_references_begins_from_the_source(host: ComfyServer) -> None:
    story = ours("flux2 dev", "masked", [FIRST], SIZE, image=PHOTOS[0], seed=SEED, scheduler="flux2")
    theirs = loaded("flux2 dev") | source_latent()
    theirs |= {
        "scaled": total_pixels(SIZE, "lanczos", steps=1),
        "encoded": node("VAEEncode", pixels="@scaled", vae=VAE),
        "positive": encoded(FIRST),
        "guided": node("FluxGuidance", conditioning="@positive", guidance=4.0),
        "edit": node("ReferenceLatent", conditioning="@guided", latent="@encoded"),
    }
    guider = node("BasicGuider", model=MODEL, conditioning="@edit")
    sigmas = node("Flux2Scheduler", steps=2, width=SIZE[0], height=SIZE[1])
    theirs |= custom_sampler(DRAWN, guider, sigmas)
    same(host, with_options(story, MASK, mask="@mask"), pasted(theirs))


CHANGES: list[tuple[str, str, Any]] = [
    ("own_guider", "cfg", 4.0), ("own_sampler", "eta", 0.2), ("own_sigmas", "rho", 4.0),
    ("any", "text", "ugly"), ("applied", "strength", 0.4), ("net", "seed", 9), ("white", "value", 0.6),
]  # fmt: skip


def test_each_part_is_in_the_cache_key_of_an_image(host: ComfyServer) -> None:
    """The same request resumes in the same folder, so an equal image would come from the cache."""
    parts = SAMPLING | MASK | {"other": encoded("other")} | control(PHOTOS[1], "@other", "@other")
    inputs = OWN | {"negative": "@any", "conditioning": "@applied", "mask": "@mask"}
    story = sd15("found by its parts", image=PHOTOS[0], seed=SEED, cfg=3.0, denoise=0.8)
    graph = with_options(story, parts, **inputs)
    first = pixels(host, host.run(graph))
    for key, name, value in CHANGES:
        differ(host, first, changed(graph, key, **{name: value}), 0.01)
    before = made(host, "found by its parts")
    # The changed seed is not used, since each attempt has its own: the cached image stays valid.
    same(host, graph, changed(graph, "own_noise", noise_seed=5))
    assert made(host, "found by its parts") == before


# One step of Edit Plan


def one_step(graph: Graph, settings: str) -> Graph:
    return by_hand(graph, f"1. {FIRST}\n   draw: {FIRST}\n   {settings}")


def test_a_steps_mask_acts_like_a_connected_one(host: ComfyServer) -> None:
    square = Image.new("L", SIZE, 0)
    square.paste(255, HOLE)
    name = host.put_input(square, "step mask.png")
    painted = Image.new("RGBA", SIZE, (0, 0, 0, 255))
    painted.paste((0, 0, 0, 0), HOLE)
    host.put_input(painted, "painted mask.png")
    story = sd15("masked by a step", **EDIT)
    connected = with_options(sd15("masked by a wire", **EDIT), MASK, mask="@mask")
    drawn = same(host, one_step(story, f"mask: {name}"), connected)
    same(host, one_step(story, "mask: painted mask.png [input]"), connected)
    differ(host, drawn, story, MIN_DIFF)
    # Painted over under the same name: another mask, so another cache key.
    square.paste(255, (0, 0, 64, 128))
    host.put_input(square, name)
    differ(host, drawn, one_step(story, f"mask: {name}"), MIN_DIFF)


def test_a_steps_reference_acts_like_a_pinned_one(host: ComfyServer) -> None:
    options = {"image": PHOTOS[0], "seed": SEED, "scheduler": "flux2"}
    story = ours("flux2 dev", "shown by a step", [FIRST], SIZE, **options)
    pinned = ours("flux2 dev", "shown by a wire", [FIRST], SIZE, references=[PHOTOS[1]], **options)
    drawn = same(host, one_step(story, f"reference: {PHOTOS[1]}"), pinned)
    differ(host, drawn, story, MIN_DIFF)


STYLE, WORDS = "styles/step-style.safetensors", "step-words.safetensors"
LAYERS = {
    STYLE: ("diffusion_model.time_embed.0", 256, 64),
    WORDS: ("text_encoders.clip_l.transformer.text_model.encoder.layers.0.mlp.fc1", 64, 32),
}


def save_lora(folder: Path, name: str, seed: int = 0) -> None:
    """Write a random LoRA of one linear layer."""
    layer, rows, columns = LAYERS[name]
    noise = torch.Generator().manual_seed(seed)
    weights = {
        f"{layer}.lora_A.weight": torch.randn(4, columns, generator=noise),
        f"{layer}.lora_B.weight": torch.randn(rows, 4, generator=noise),
    }
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / name)


@pytest.fixture(scope="module")
def loras(host: ComfyServer) -> Iterator[Path]:
    folder = host.base / "models" / "loras"
    for name in LAYERS:
        save_lora(folder, name)
    yield folder
    for name in LAYERS:
        (folder / name).unlink()


def steps(graph: Graph, *settings: str) -> Graph:
    """The story with lines of settings for each of its steps, which are generated from text."""
    return by_hand(
        graph,
        "\n".join(
            f"{number}. Step\n   draw: a fox\n   seed: 5\n   source: text\n   {lines}"
            for number, lines in enumerate(settings, 1)
        ),
    )


def images(host: ComfyServer, request: str, *settings: str) -> list[np.ndarray]:
    outputs = host.run(steps(sd15(request, **BLURRY), *settings))
    return [pixels(host, outputs, index=index) for index in range(len(settings))]


@pytest.mark.parametrize(("name", "strength"), [(STYLE, 1.0), (WORDS, -0.5)], ids=["model", "text encoder"])
def test_a_steps_lora_acts_like_a_wired(host: ComfyServer, loras: Path, name: str, strength: float) -> None:
    story = sd15(f"lora of a step {name}", **BLURRY)
    connected = steps(sd15(f"lora on a wire {name}", **BLURRY), "")
    strengths = {"strength_model": strength, "strength_clip": strength}
    connected["lora"] = node("LoraLoader", model=MODEL, clip=CLIP, lora_name=name, **strengths)
    connected = changed(connected, "generator", model="@lora", clip=["lora", 1])
    drawn = same(host, steps(story, f"lora: {name}\n   lora_strength: {strength}"), connected)
    differ(host, drawn, steps(story, ""), MIN_DIFF)


def test_a_lora_is_applied_in_its_step_only(host: ComfyServer, loras: Path) -> None:
    request = "lora in one step"

    def records() -> int:
        return len(made(host, request, "attempts"))

    plain, styled, again, worded = images(host, request, "", f"lora: {STYLE}", "", f"lora: {WORDS}")
    np.testing.assert_array_equal(plain, again)
    assert len({one.tobytes() for one in (plain, styled, worded)}) == 3
    assert records() == 3, "the third image is that of the first, cached"
    weak = images(host, request, "", f"lora: {STYLE}\n   lora_strength: 0.1", "", f"lora: {WORDS}")
    np.testing.assert_array_equal(weak[3], worded)
    assert records() == 4, "only the changed step is generated"
    # A LoRA that was trained again under the same name: another identity, so that step is generated again.
    save_lora(loras, STYLE, seed=1)
    retrained = images(host, request, "", f"lora: {STYLE}", "", f"lora: {WORDS}")
    assert not np.array_equal(retrained[1], styled)
    np.testing.assert_array_equal(retrained[0], plain)
    assert records() == 5 and journal(host, request)


def test_a_step_has_its_own_size(host: ComfyServer) -> None:
    first, second, third = images(host, "size of a step", "", "size: 192x64", "")
    assert (first.shape, second.shape) == ((128, 128, 3), (64, 192, 3))
    np.testing.assert_array_equal(first, third)
    edits = "1. Fox\n   draw: a fox\n2. Sun\n   draw: a sun\n   size: 64x128\n3. Moon\n   draw: add a moon"
    outputs = host.run(by_hand(sd15("size of an edit", **EDIT), edits))
    shapes = [pixels(host, outputs, index=index).shape for index in range(3)]
    assert shapes[:2] == [(128, 128, 3), (128, 64, 3)], "cropped to the step's shape"
    assert shapes[2][0] > shapes[2][1], "the next step edits the tall image at its shape"
