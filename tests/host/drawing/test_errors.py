"""Models, edit methods, settings and parts that do not match give one line with advice."""

from __future__ import annotations

from typing import Any

import pytest

from ..graphs.official import CLIP, MODEL, Graph, ours, ours_of
from ..graphs.stories import TINY_WORLD, by_hand, changed, node, scripted, story, written
from ..server.comfy_server import ComfyServer
from ..server.runs import PHOTO_SIZE as SIZE
from ..server.runs import PHOTOS, failure, families, refusal


def drawn(family: str, request: str = "unfit", **options: Any) -> Graph:
    return ours(family, f"{request} {family}", ["a fox"], SIZE, **options)


def with_part(family: str, part: str, other: str) -> Graph:
    graph = drawn(family, f"{part} of {other}") | {"other": node("InterleaveTestFamily", family=other)}
    return changed(graph, "generator", **{part: ["other", {"clip": 1, "vae": 2}[part]]})


def with_model(graph: Graph, **model: Any) -> Graph:
    """The graph with this node in front of its generator's model."""
    kind = model.pop("class_type")
    return changed(graph | {"model2": node(kind, model=MODEL, **model)}, "generator", model="@model2")


def failing(words: str) -> Graph:
    """A model that fails with these words, or runs out of memory, when it samples."""
    graph = drawn("sd15", f"failing {words}")
    return with_model(graph, class_type="InterleaveTestFailingModel", words=words)


def options(parts: Graph, inputs: dict[str, Any], **settings: Any) -> Graph:
    graph = drawn("sd15", f"refused {sorted(inputs)} {sorted(parts)}", **settings)
    graph |= parts | {"options": node("InterleaveStepOptions", **inputs)}
    return changed(graph, "generator", options="@options")


def anything(name: str, kind: str = "text") -> Graph:
    return options({"odd": node("InterleaveTestAnything", kind=kind)}, {name: "@odd"})


def step(settings: str, graph: Graph | None = None) -> Graph:
    mine = graph or drawn("sd15", f"refused {settings[:9]}", image=PHOTOS[0])
    return by_hand(mine, f"1. a fox\n   draw: a fox\n   {settings}")


BAD = {"bad": node("CLIPTextEncode", clip=CLIP, text="b")}
GUIDERS = {
    "flux": node("InterleaveTestFamily", family="flux1"),
    "other": node("BasicGuider", model=["flux", 0], conditioning="@bad"),
    "guider": node("CFGGuider", model=MODEL, positive="@bad", negative="@bad", cfg=3.0),
    "negated": node(
        "PerpNegGuider",
        model=MODEL, positive="@bad", negative="@bad", empty_conditioning="@bad", cfg=2.0, neg_scale=1.0,
    ),
    **BAD,
}  # fmt: skip
CONNECTED = {"options": node("InterleaveStepOptions", guider="@guider"), **GUIDERS}
DARK = {"black": node("SolidMask", value=0.0, width=8, height=8)}
TALL = {"wide": node("SolidMask", value=1.0, width=64, height=32)}
LORA = "lora: Qwen-Image-Edit-2511-Lightning-4steps-V1.0-bf16.safetensors"


def guided(graph: Graph) -> Graph:
    return changed(graph | CONNECTED, "generator", options="@options")


def renamed(kind: str, **settings: Any) -> Graph:
    graph = drawn("sd15", f"renamed {kind}", **settings)
    return with_model(graph, class_type="InterleaveTestRenamedModel", kind=kind)


OTHER_VAE = "VAE does not belong to.*Connect the VAE"
OTHER_CLIP = "text encoder does not belong to|CLIP or VAE belongs to"
EDITS: dict[str, tuple[Graph, str]] = {
    "flux1": (drawn("flux1"), "'flux kontext' for Kontext"),
    "ignored reference": (drawn("sd15", references=PHOTOS[:1]), "reference images are connected"),
    "too many": (
        drawn("qwen image", edit="qwen image edit plus", references=PHOTOS), "at most 2 in addition"
    ),
    "guidance": (drawn("z-image", guidance=3.0), "no guidance in addition to cfg"),
    "no node": (
        renamed("QwenImage21", edit="encode node"), "does not have the node TextEncodeQwenImage21"
    ),
    "krea2 guider": (guided(ours_of("krea 2 identity", "a fox")), "would ignore the model that edit method"),
    "vae": (with_part("flux2 dev", "vae", "sd15"), OTHER_VAE),
    "vae of as many channels": (with_part("omnigen2", "vae", "qwen image"), OTHER_VAE),
    "clip": (with_part("flux2 dev", "clip", "sd15"), OTHER_CLIP),
    "clip of sdxl": (with_part("sdxl", "clip", "sd15"), OTHER_CLIP),
    "gpu memory": (failing(""), "does not fit into the GPU's memory"),
    "memory": (
        failing("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
        "does not fit into memory",
    ),
    "shapes": (
        failing("mat1 and mat2 shapes cannot be multiplied (77x768 and 4096x3072)"),
        "CLIP or VAE belongs to another",
    ),
    "fault": (failing("a fault of its own"), "RuntimeError: a fault of its own"),
}  # fmt: skip
PARTS: dict[str, tuple[Graph, str]] = {
    "cfg 1": (options(BAD, {"negative": "@bad"}), "at cfg 1"),
    **{name: (anything(name), "has the wrong type") for name in ("guider", "noise", "mask", "negative")},
    "sigmas": (anything("sigmas", "nan"), "has the wrong type"),
    "two negatives": (options(BAD, {"negative": "@bad"}, cfg=3.0, negative="x"), "Both a negative prompt"),
    "conditioning": (options(BAD, {"conditioning": "@bad"}), "is applied to the connected conditioning"),
    "empty mask": (options(DARK, {"mask": "@black"}), "mask is empty"),
    "wide mask": (options(TALL, {"mask": "@wide"}, image=PHOTOS[0]), "have different shapes"),
    "other guider": (options(GUIDERS, {"guider": "@other"}), "guider has a Flux model"),
    "PerpNeg": (options(GUIDERS, {"guider": "@negated"}), "needs empty_negative_prompt"),
    "no mask": (step("mask: nowhere.png"), r"Step 1, mask: Image 'nowhere\.png' does not exist in 'input'"),
    "mask outside": (step("mask: ../output/x.png"), "Step 1, mask: Image"),
    "reference": (
        step(f"reference: {PHOTOS[1]}"), "Step 1 sets its own reference, but this generator does not support"
    ),
    "no lora": (step("lora: nowhere.safetensors"), r"'nowhere\.safetensors' does not exist in models/loras"),
    "lora outside": (step("lora: ../loras/x.safetensors"), "lora: it must be the name of a file"),
    "foreign lora": (step(LORA), "Step 1: Nothing in the LoRA '.*' fits the connected"),
    "strength": (step(f"{LORA}\n   lora_strength: 101"), r"lora_strength: it must be .*100"),
    "size": (step("size: 64"), "size: it must be WIDTHxHEIGHT"),
    "lora of the tiny world": (
        step(LORA, story("tiny world lora", ["a fox"], generator=TINY_WORLD)),
        "Step 1 sets its own lora, but this generator does not support",
    ),
    "lora with a guider": (
        step(LORA, guided(drawn("sd15", "guided lora"))),
        "Step 1 sets its own lora, but this generator does not support lora",
    ),
    "prompt without enhancer": (
        story("no enhancer", ["a"], enhancer_prompt="You upsample prompts."), "no enhancer is connected"
    ),
    "enhancer": (
        story("enhancer fails", ["a"], enhancer="@enhancer") | {"enhancer": scripted([])},
        "The prompt enhancer failed: The script has 0 replies",
    ),
}  # fmt: skip


def cast_of(*names: str, **inputs: Any) -> Graph:
    """Return chained Cast nodes, the last of which is connected to Edit Plan."""
    graph = written("wrong cast", "1. a mill")
    for index, name in enumerate(names):
        before = {"cast": f"@member{index - 1}"} if index else {}
        given = {"name": name, "kind": "character", "traits": "", **before, **inputs}
        graph[f"member{index}"] = node("InterleaveCast", **given)
    return changed(graph, "edit", cast=f"@member{len(names) - 1}")


CASTS: dict[str, tuple[Graph, str]] = {
    "twice": (cast_of("Mia", "Tom", " mia"), r"the cast has two members named 'mia'\. Give each member"),
    "traits": (cast_of("Mia", traits="a\nb\nc\nd\ne"), "Cast, 'Mia': 5 traits; at most 4 are allowed"),
    "images": (
        cast_of("Mia", **{"images.image0": "@images"})
        | {"images": node("EmptyImage", width=64, height=64, batch_size=5, color=0)},
        "Cast, 'Mia': 5 images; at most 4 are allowed",
    ),
    "unknown": (
        changed(cast_of("Mia"), "edit", edits="1. a\n draw: a\n cast: Tom"),
        "names 'Tom', who is not in the cast",
    ),
}  # fmt: skip
CASES = {**EDITS, **PARTS, **CASTS}


@pytest.mark.parametrize("name", CASES)
def test_one_line_with_advice(host: ComfyServer, name: str) -> None:
    graph, words = CASES[name]
    known = families(host)
    for family in [one["inputs"]["family"] for one in graph.values() if "family" in one["inputs"]]:
        if family not in known:
            pytest.skip(f"This host does not know {family}.")
    if name == "no node" and "TextEncodeQwenImage21" in host.get("/object_info"):
        pytest.skip("This host has the node.")
    failure(host, graph, words)


def test_a_wrong_name_of_a_member_is_rejected_before_anything_runs(host: ComfyServer) -> None:
    refusal(host, cast_of("Mia, Tom"), "name", "contains ','")
    typed = changed(cast_of("Mia, Tom"), "member0", name="@typed")
    failure(host, typed | {"typed": node("PrimitiveString", value="Mia, Tom")}, "contains ','")
    assert host.run(drawn("sd15", "after a failure"))["out"]["images"]
