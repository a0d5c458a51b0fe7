"""Step Options: the pixels of the same graph wired by hand, part of the identity, or one error."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from interleave_thinker.backend.story.loop.policy import attempt_seed

from ..graphs.families import CLIP, MODEL, VAE, Graph, custom_sampler, ksampler, loaded, ours, saved, text
from ..graphs.klein import node
from ..server.comfy_server import ComfyServer, HostError
from ..server.pixels import PHOTO_SIZE as SIZE
from ..server.pixels import differ, pixels, same
from ..server.runs import made

MIN_DIFF = 0.02
SEED = 13
DRAWN = attempt_seed(SEED, 1, 0)
FIRST = "a fox"


def with_options(graph: Graph, parts: Graph, **inputs: Any) -> Graph:
    """A story whose Step Generator is given these inputs of Step Options."""
    graph = copy.deepcopy(graph) | parts | {"options": node("InterleaveStepOptions", **inputs)}
    graph["generator"]["inputs"]["options"] = ["options", 0]
    return graph


def encoded(words: str) -> dict[str, Any]:
    return node("CLIPTextEncode", clip=CLIP, text=words)


def empty() -> Graph:
    return {"latent": node("EmptyLatentImage", width=SIZE[0], height=SIZE[1], batch_size=1)}


def own_sampling() -> Graph:
    """A guider with prompts of its own, an ancestral sampler, Karras' sigmas."""
    return {
        "any": encoded("anything"),
        "own_guider": node("CFGGuider", model=MODEL, positive="@any", negative="@any", cfg=3.0),
        "own_sampler": node("SamplerEulerAncestral", eta=0.7, s_noise=1.0),
        "own_sigmas": node("KarrasScheduler", steps=4, sigma_max=14.6, sigma_min=0.03, rho=7.0),
        "own_noise": node("RandomNoise", noise_seed=99),
    }


OWN = {"guider": "@own_guider", "sampler": "@own_sampler", "sigmas": "@own_sigmas", "noise": "@own_noise"}


def by_hand(seed: int, latent: dict[str, Any], sigmas: Any = "@own_sigmas") -> Graph:
    """The same sampling with the step's prompts."""
    return (
        loaded("sd15")
        | text(FIRST, "blurry")
        | own_sampling()
        | {
            "latent": latent,
            "guider": node("CFGGuider", model=MODEL, positive="@positive", negative="@negative", cfg=3.0),
            "noise": node("RandomNoise", noise_seed=seed),
            "sampled": node(
                "SamplerCustomAdvanced",
                noise="@noise", guider="@guider", sampler="@own_sampler", sigmas=sigmas,
                latent_image="@latent",
            ),
        }
        | saved()
    )  # fmt: skip


def test_guider_sampler_sigmas_and_noise(host: ComfyServer) -> None:
    story = ours("sd15", "own sampling", [FIRST], SIZE, seed=SEED, cfg=7.0, negative="blurry")
    drawn = same(host, with_options(story, own_sampling(), **OWN), by_hand(DRAWN, empty()["latent"]))
    differ(host, drawn, story, MIN_DIFF)


def test_an_edit_uses_the_last_part_of_the_sigmas(host: ComfyServer, photos: tuple[str, str, str]) -> None:
    options = {"seed": SEED, "cfg": 7.0, "negative": "blurry", "image": photos[0], "denoise": 0.5}
    story = ours("sd15", "own sampling of an edit", [FIRST], SIZE, **options)
    theirs = by_hand(DRAWN, node("VAEEncode", pixels="@source", vae=VAE), ["split", 1])
    theirs |= {
        "source": node("LoadImage", image=photos[0]),
        "split": node("SplitSigmasDenoise", sigmas="@own_sigmas", denoise=0.5),
    }
    same(host, with_options(story, own_sampling(), **OWN), theirs)


@pytest.mark.parametrize("cfg", [1.0, 5.0])
def test_a_basic_guider_has_no_negative(host: ComfyServer, cfg: float) -> None:
    parts = {"any": encoded("x"), "basic": node("BasicGuider", model=MODEL, conditioning="@any")}
    mine = with_options(ours("sd15", "basic", [FIRST], SIZE, seed=SEED, cfg=cfg), parts, guider="@basic")
    guider = node("BasicGuider", model=MODEL, conditioning="@positive")
    sigmas = node("BasicScheduler", model=MODEL, scheduler="simple", steps=2, denoise=1.0)
    theirs = loaded("sd15") | {"positive": encoded(FIRST)} | empty() | custom_sampler(DRAWN, guider, sigmas)
    same(host, mine, theirs)


def test_ideogram4_with_its_second_model_and_schedule(host: ComfyServer) -> None:
    families = host.get("/object_info/InterleaveTestFamily")["InterleaveTestFamily"]["input"]["required"]
    if "ideogram4" not in families["family"][0]:
        pytest.skip("This host does not know ideogram4.")
    size = 256, 256
    parts = {
        "second": node("InterleaveTestFamily", family="ideogram4"),
        "strong": node("CFGOverride", model=MODEL, cfg=3.0, start_percent=0.7, end_percent=1.0),
        "any": encoded("x"),
        "dual": node(
            "DualModelGuider",
            model="@strong", model_negative=["second", 0], positive="@any", negative="@any", cfg=7.0,
        ),
        "sigmas4": node("Ideogram4Scheduler", steps=3, width=size[0], height=size[1], mu=0.0, std=1.75),
    }  # fmt: skip
    story = ours("ideogram4", "template", [FIRST], size, seed=SEED)
    mine = with_options(story, parts, guider="@dual", sigmas="@sigmas4")
    guider = parts["dual"] | {
        "inputs": parts["dual"]["inputs"] | {"positive": ["positive", 0], "negative": ["negative", 0]}
    }
    theirs = loaded("ideogram4") | text(FIRST, None) | parts
    theirs |= {"latent": node("EmptyFlux2LatentImage", width=size[0], height=size[1], batch_size=1)}
    theirs |= custom_sampler(DRAWN, guider, parts["sigmas4"])
    same(host, mine, theirs)


def test_a_connected_negative_is_used(host: ComfyServer) -> None:
    story = ours("sd15", "negative", [FIRST], SIZE, seed=SEED, cfg=3.0)
    mine = with_options(story, {"bad": encoded("blurry")}, negative="@bad")
    drawn = same(
        host, mine, loaded("sd15") | text(FIRST, "blurry") | empty() | ksampler(DRAWN, "@latent", 3.0)
    )
    differ(host, drawn, story, MIN_DIFF)


def control(image: str, positive: str, negative: str, strength: float = 1.0) -> Graph:
    return {
        "hint": node("LoadImage", image=image),
        "net": node("InterleaveTestControlNet", seed=8),
        "applied": node(
            "ControlNetApplyAdvanced",
            positive=positive, negative=negative, control_net="@net", image="@hint", strength=strength,
            start_percent=0.0, end_percent=1.0,
        ),
    }  # fmt: skip


@pytest.mark.parametrize("edit", [False, True], ids=["text", "edit"])
def test_control_net_on_every_step(host: ComfyServer, photos: tuple[str, str, str], edit: bool) -> None:
    options = {"image": photos[1], "denoise": 0.6} if edit else {}
    story = ours("sd15", f"control {edit}", [FIRST], SIZE, seed=SEED, cfg=3.0, negative="blurry", **options)
    parts = {"any": encoded("anything")} | control(photos[0], "@any", "@any", 0.8)
    mine = with_options(story, parts, conditioning="@applied")
    theirs = loaded("sd15") | text(FIRST, "blurry") | control(photos[0], "@positive", "@negative", 0.8)
    theirs |= empty()
    if edit:
        theirs |= {
            "source": node("LoadImage", image=photos[1]),
            "latent": node("VAEEncode", pixels="@source", vae=VAE),
        }
    ends: dict[str, Any] = {"positive": ["applied", 0], "negative": ["applied", 1]}
    theirs |= ksampler(DRAWN, "@latent", 3.0, denoise=0.6 if edit else 1.0, **ends)
    drawn = same(host, mine, theirs)
    differ(host, drawn, story, MIN_DIFF)


def mask() -> Graph:
    """White in the middle."""
    return {
        "black": node("SolidMask", value=0.0, width=SIZE[0], height=SIZE[1]),
        "white": node("SolidMask", value=1.0, width=64, height=64),
        "mask": node("MaskComposite", destination="@black", source="@white", x=32, y=32, operation="add"),
    }


def pasted(graph: Graph) -> Graph:
    """Return a hand-wired graph whose latent is masked and whose image is pasted over the source."""
    latent = graph.pop("latent") | {}
    graph |= mask() | {
        "unmasked": latent,
        "latent": node("SetLatentNoiseMask", samples="@unmasked", mask="@mask"),
        "pasted": node(
            "ImageCompositeMasked",
            destination="@source", source="@decoded", x=0, y=0, resize_source=False, mask="@mask",
        ),
        "out": node("SaveImage", images="@pasted", filename_prefix="official"),
    }  # fmt: skip
    return graph


def test_a_mask_limits_the_edit(host: ComfyServer, photos: tuple[str, str, str]) -> None:
    options = {"image": photos[0], "denoise": 0.7, "cfg": 3.0, "negative": "blurry", "seed": SEED}
    mine = with_options(ours("sd15", "masked", [FIRST], SIZE, **options), mask(), mask="@mask")
    theirs = loaded("sd15") | text(FIRST, "blurry")
    theirs |= {
        "source": node("LoadImage", image=photos[0]),
        "latent": node("VAEEncode", pixels="@source", vae=VAE),
    }
    drawn = same(host, mine, pasted(theirs | ksampler(DRAWN, "@latent", 3.0, denoise=0.7)))
    source = pixels(host, {"out": {"images": [{"filename": photos[0], "type": "input", "subfolder": ""}]}})
    outside = np.ones(SIZE, bool)
    outside[32:96, 32:96] = False
    np.testing.assert_array_equal(drawn[outside], source[outside])
    assert np.abs(drawn[~outside].astype(int) - source[~outside]).mean() > 1


def test_a_masked_edit_by_references_begins_from_the_source(
    host: ComfyServer, photos: tuple[str, str, str]
) -> None:
    options = {"image": photos[0], "seed": SEED, "scheduler": "flux2"}
    mine = with_options(ours("flux2 dev", "masked", [FIRST], SIZE, **options), mask(), mask="@mask")
    theirs = loaded("flux2 dev") | {
        "source": node("LoadImage", image=photos[0]),
        "scaled": node(
            "ImageScaleToTotalPixels",
            image="@source", upscale_method="lanczos", megapixels=SIZE[0] * SIZE[1] / 1024**2,
            resolution_steps=1,
        ),
        "encoded": node("VAEEncode", pixels="@scaled", vae=VAE),
        "latent": node("VAEEncode", pixels="@source", vae=VAE),
        "positive": encoded(FIRST),
        "guided": node("FluxGuidance", conditioning="@positive", guidance=4.0),
        "edit": node("ReferenceLatent", conditioning="@guided", latent="@encoded"),
    }  # fmt: skip
    guider = node("BasicGuider", model=MODEL, conditioning="@edit")
    sigmas = node("Flux2Scheduler", steps=2, width=SIZE[0], height=SIZE[1])
    same(host, mine, pasted(theirs | custom_sampler(DRAWN, guider, sigmas)))


def test_a_step_without_a_source_image_is_not_masked(host: ComfyServer) -> None:
    story = ours("sd15", "masked text", [FIRST], SIZE, seed=SEED)
    theirs = loaded("sd15") | text(FIRST, None) | empty() | ksampler(DRAWN, "@latent")
    same(host, with_options(story, mask(), mask="@mask"), theirs)


CHANGES: list[tuple[str, Any, Any]] = [
    ("own_guider", "cfg", 4.0),
    ("own_sampler", "eta", 0.2),
    ("own_sigmas", "rho", 4.0),
    ("any", "text", "ugly"),
    ("applied", "strength", 0.4),
    ("net", "seed", 9),
    ("white", "value", 0.6),
]


def test_each_part_is_in_the_cache_key_of_an_image(host: ComfyServer, photos: tuple[str, str, str]) -> None:
    """The same request resumes in the same folder, so an equal image would come from the cache."""

    def drawn(change: tuple[str, Any, Any] | None) -> np.ndarray:
        options = {"image": photos[0], "seed": SEED, "cfg": 3.0, "denoise": 0.8}
        graph = ours("sd15", "found by its parts", [FIRST], SIZE, **options)
        parts = own_sampling() | mask() | {"other": encoded("other")} | control(photos[1], "@other", "@other")
        inputs = OWN | {"negative": "@any", "conditioning": "@applied", "mask": "@mask"}
        graph = with_options(graph, parts, **inputs)
        if change is not None:
            graph[change[0]]["inputs"][change[1]] = change[2]
        return pixels(host, host.run(graph)).astype(int)

    first = drawn(None)
    for change in CHANGES:
        assert np.abs(drawn(change) - first).mean() > 0.01, change
    before = made(host, "found by its parts")
    # The changed seed is not used, since each attempt has its own: the cached image stays valid.
    assert (drawn(("own_noise", "noise_seed", 5)) == first).all()
    assert made(host, "found by its parts") == before


@pytest.mark.parametrize(
    ("settings", "parts", "inputs", "words"),
    [
        ({}, {"bad": encoded("b")}, {"negative": "@bad"}, "at cfg 1"),
        ({}, {"odd": node("InterleaveTestAnything", kind="text")}, {"guider": "@odd"}, "has the wrong type"),
        ({}, {"odd": node("InterleaveTestAnything", kind="text")}, {"noise": "@odd"}, "has the wrong type"),
        ({}, {"odd": node("InterleaveTestAnything", kind="text")}, {"mask": "@odd"}, "has the wrong type"),
        (
            {},
            {"odd": node("InterleaveTestAnything", kind="text")},
            {"negative": "@odd"},
            "has the wrong type",
        ),
        ({}, {"odd": node("InterleaveTestAnything", kind="nan")}, {"sigmas": "@odd"}, "has the wrong type"),
        (
            {"cfg": 3.0, "negative": "x"},
            {"bad": encoded("b")},
            {"negative": "@bad"},
            "Both a negative prompt",
        ),
        ({}, {"bad": encoded("b")}, {"conditioning": "@bad"}, "is applied to the connected conditioning"),
        (
            {},
            {"black": node("SolidMask", value=0.0, width=8, height=8)},
            {"mask": "@black"},
            "mask is empty",
        ),
        (
            {},
            {
                "any": encoded("x"),
                "flux": node("InterleaveTestFamily", family="flux1"),
                "guider": node("BasicGuider", model=["flux", 0], conditioning="@any"),
            },
            {"guider": "@guider"},
            "guider has a Flux model",
        ),
        (
            {},
            {
                "any": encoded("x"),
                "guider": node(
                    "PerpNegGuider",
                    model=MODEL,
                    positive="@any",
                    negative="@any",
                    empty_conditioning="@any",
                    cfg=2.0,
                    neg_scale=1.0,
                ),
            },
            {"guider": "@guider"},
            "needs empty_negative_prompt",
        ),
    ],
)
def test_contradictory_settings_are_rejected(
    host: ComfyServer, settings: dict[str, Any], parts: Graph, inputs: dict[str, Any], words: str
) -> None:
    graph = with_options(ours("sd15", f"refused {words}", [FIRST], SIZE, **settings), parts, **inputs)
    with pytest.raises(HostError, match=words):
        host.run(graph)


def test_a_mask_of_another_shape_is_rejected(host: ComfyServer, photos: tuple[str, str, str]) -> None:
    parts = {"wide": node("SolidMask", value=1.0, width=64, height=32)}
    graph = with_options(ours("sd15", "wide mask", [FIRST], SIZE, image=photos[0]), parts, mask="@wide")
    with pytest.raises(HostError, match="have different shapes"):
        host.run(graph)
