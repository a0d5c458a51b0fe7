"""Wrong values at the pack's sockets, from outputs of type "any", as graphs for the real host.

Sockets come from the host's description of every node, so a new socket is tested without a change here. Each gets
every value of the shim pack's `ODD`, and the real value of every other socket type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..graphs.attempt_pairs import pair
from ..graphs.families import CLIP, MODEL, VAE, loaded
from ..graphs.klein import Graph, node
from .hostile_inputs import Hostile, agent, by_hand, judging, whole_graphs

WIDGETS = frozenset({"INT", "FLOAT", "STRING", "BOOLEAN", "COMBO"})
OF_A_KIND = "COMFY_AUTOGROW_V3"
NAMES_OF_MANY = {"references": "references.reference_1", "images": "images.image0"}


def sockets(info: dict[str, Any], story_name: str, service: str) -> Iterator[Hostile]:
    """Yield every socket of every node of `info` (/object_info) with wrong values, and with some right ones."""
    odd = [name for name in info["InterleaveTestOddValue"]["input"]["required"]["name"][0] if name != "given"]
    for class_type, (graph, key) in graphs_with_sockets(story_name, service).items():
        for name in socket_names(info[class_type]["input"]):
            for value in odd:
                yield Hostile(
                    "socket", f"{class_type}.{name} <- {value}", wired(graph, key, name, {"name": value})
                )
            for kind, (parts, link) in real_values(story_name).items():
                given = {"name": "given", "given": link}
                yield Hostile(
                    "socket", f"{class_type}.{name} <- a {kind}", parts | wired(graph, key, name, given)
                )


def graphs_with_sockets(story_name: str, service: str) -> dict[str, tuple[Graph, str]]:
    """Return for every node with sockets a graph that runs, and the key of the node in it."""
    graphs = whole_graphs(story_name, service)
    drawn, _ = graphs["InterleaveStepGenerator"]
    edited = {
        **loaded("sd15"),
        "plan": node("InterleaveTestPlan", request="hostile parts", prompts="a\nb"),
        "generator": node(
            "InterleaveStepGenerator",
            model=MODEL, clip=CLIP, vae=VAE, width=64, height=64, steps=1, cfg=2.0, sampler="euler",
            scheduler="normal", edit="image to image", denoise=0.5, negative="", options="@options",
        ),
        "options": node("InterleaveStepOptions"),
        "loop": {**drawn["loop"], "inputs": {**drawn["loop"]["inputs"], "generator": ["generator", 0]}},
        "report": node("PreviewAny", source=["loop", 3]),
    }  # fmt: skip
    hosted = judging(node("InterleaveHostAgent", clip="@clip"), "a page")
    return graphs | {
        "InterleaveHostAgent": (hosted, "agent"),
        "InterleaveStepOptions": (edited, "options"),
        "InterleaveTryOpen": (pair("", 1, 1, step=1), "open"),
    }


def real_values(story_name: str) -> dict[str, tuple[Graph, Any]]:
    """A value of every kind of socket, and the nodes that make it."""
    plan = by_hand("1. a\n   draw: a")["edit"]
    return {
        "MODEL": ({}, ["model", 0]),
        "CLIP": ({}, ["clip", 0]),
        "VAE": ({}, ["vae", 0]),
        "AGENT": ({"real": agent("[]")}, ["real", 0]),
        "GENERATOR": ({"real": node("InterleaveTinyWorldGenerator")}, ["real", 0]),
        "OPTIONS": ({"real": node("InterleaveStepOptions")}, ["real", 0]),
        "CAST": ({"real": node("InterleaveCast", name="Mia", kind="prop", traits="red")}, ["real", 0]),
        "PLAN": ({"real": plan}, ["real", 0]),
        "TRAJECTORY": ({"real": node("InterleaveLoadTrajectory", story=story_name)}, ["real", 0]),
        "TRY": ({"real": node("InterleaveTryOpen", prompt="a", step=0, seed=1)}, ["real", 0]),
        "IMAGE": ({"real": node("EmptyImage", width=16, height=16, batch_size=1, color=0)}, ["real", 0]),
        "CONDITIONING": ({"real": node("CLIPTextEncode", clip="@clip", text="a")}, ["real", 0]),
        "NOISE": ({"real": node("RandomNoise", noise_seed=1)}, ["real", 0]),
        "SAMPLER": ({"real": node("KSamplerSelect", sampler_name="euler")}, ["real", 0]),
    }


def socket_names(inputs: dict[str, Any]) -> list[str]:
    """The names under which a graph connects the sockets of a node."""
    found: list[str] = []
    for name, (kind, *_) in {**inputs.get("required", {}), **inputs.get("optional", {})}.items():
        if isinstance(kind, str) and kind not in WIDGETS:
            found.append(NAMES_OF_MANY.get(name, name) if kind == OF_A_KIND else name)
    return found


def wired(graph: Graph, key: str, name: str, odd: dict[str, Any]) -> Graph:
    """The graph with one socket connected to an odd value."""
    changed = {**graph[key], "inputs": {**graph[key]["inputs"], name: ["odd", 0]}}
    return {**graph, key: changed, "odd": node("InterleaveTestOddValue", **odd)}
