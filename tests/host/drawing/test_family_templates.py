"""The hand-written graphs of the other families are still those of the installed templates, wire for wire.

Left out on both sides: the loaders and what patches the MODEL (before either graph), what writes a longer
prompt, and the nodes that hold a number.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.host_home import HostHome

from ..graphs import families as official
from ..graphs import newer_families as newer
from ..graphs import read_families as read
from ..graphs.klein import Graph, image_edit
from ..server.templates import template

Wire = tuple[str, str, str]
LOADERS = {
    "UNETLoader", "CLIPLoader", "DualCLIPLoader", "VAELoader", "CheckpointLoaderSimple",
    "LoraLoaderModelOnly",
    "ModelSamplingAuraFlow", "ModelSamplingFlux", "CFGNorm", "ComfySwitchNode", "InterleaveTestFamily",
}  # fmt: skip
HOLDERS = {
    "LoadImage",
    "SaveImage",
    "PrimitiveInt",
    "PrimitiveFloat",
    "PrimitiveStringMultiline",
    "ImageStitch",
    "PreviewAny",
    "StringConcatenate",
    "StringReplace",
    "TextGenerate",
    "ImageCompare",
    "SaveImageAdvanced",
}
BYPASSED = 4


def wires_of_template(workflow: dict[str, Any], number: int | None, active: bool = False) -> set[Wire]:
    """Return the wires of a subgraph (the whole graph for None), nested ones flattened.

    `active` True includes bypassed nodes.
    """
    subgraphs = {one["id"]: one for one in workflow.get("definitions", {}).get("subgraphs", [])}
    graph = workflow if number is None else workflow["definitions"]["subgraphs"][number]
    return {wire for wire in _wires(graph, subgraphs, active) if not (LOADERS | HOLDERS) & set(wire[:2])}


def _wires(graph: dict[str, Any], subgraphs: dict[str, Any], active: bool) -> set[Wire]:
    nodes = {one["id"]: one for one in graph["nodes"] if active or one.get("mode") != BYPASSED}
    found: set[Wire] = set()
    for link in graph["links"]:
        if isinstance(link, list):
            _, origin, origin_slot, target, target_slot, _ = link
        else:
            origin, target = link["origin_id"], link["target_id"]
            origin_slot, target_slot = link["origin_slot"], link["target_slot"]
        if origin in nodes and target in nodes:
            sources = _ends(nodes[origin], origin_slot, subgraphs, "outputs")
            targets = _ends(nodes[target], target_slot, subgraphs, "inputs")
            found |= {(source, kind, name) for source, _ in sources for kind, name in targets}
    for one in nodes.values():
        if one["type"] in subgraphs:
            found |= _wires(subgraphs[one["type"]], subgraphs, active)
    return found


def _ends(one: dict[str, Any], slot: int, subgraphs: dict[str, Any], side: str) -> list[tuple[str, str]]:
    inner = subgraphs.get(one["type"])
    if inner is None:
        return [(one["type"], one[side][slot]["name"] if one[side] else "")]
    border, near, near_slot, far, far_slot = (
        (-10, "origin_id", "origin_slot", "target_id", "target_slot")
        if side == "inputs"
        else (-20, "target_id", "target_slot", "origin_id", "origin_slot")
    )
    by_id = {inside["id"]: inside for inside in inner["nodes"]}
    # A node of a sub-graph may show fewer ends than the sub-graph has.
    names = [end["name"] for end in inner[side]]
    slot = names.index(one[side][slot]["name"]) if one[side][slot]["name"] in names else slot
    return [
        end
        for link in inner["links"]
        if link[near] == border and link[near_slot] == slot and link[far] in by_id
        for end in _ends(by_id[link[far]], link[far_slot], subgraphs, side)
    ]


def wires_of_graph(graph: Graph) -> set[Wire]:
    """The same of a graph in API form."""
    wires = {
        (graph[value[0]]["class_type"], one["class_type"], name)
        for one in graph.values()
        for name, value in one["inputs"].items()
        if isinstance(value, list)
    }
    return {wire for wire in wires if not (LOADERS | HOLDERS) & set(wire[:2])}


IMAGES = ("a.png", "b.png", "c.png")
GUIDED = {"cfg": 4.0, "negative": "n"}


@pytest.mark.parametrize(
    ("name", "graph"),
    [
        ("image_flux2_klein_image_edit_4b_distilled", image_edit("p", 1, "a", 1.0, references=("b",))),
        ("flux_kontext_dev_basic", official.kontext("p", 1, "a")),
        ("image_qwen_image_edit", official.qwen_edit("p", 1, "a")),
        ("image_qwen_image_edit_2509", official.qwen_edit_plus("p", 1, IMAGES)),
        (
            "image_qwen_image_edit_2511",
            official.qwen_edit_plus("p", 1, IMAGES, method="index_timestep_zero"),
        ),
        ("image_omnigen2_t2i", official.omnigen2("p", 1, (), 1.0, guidance=2.0, **GUIDED)),
        ("image_z_image_turbo", official.text_to_image("z-image", "p", 1, (64, 64))),
        ("image_z_image", official.text_to_image("z-image", "p", 1, (64, 64), negative="n")),
        ("image_qwen_image", official.text_to_image("qwen image", "p", 1, (64, 64), negative="n")),
        ("default", official.text_to_image("sd15", "p", 1, (64, 64), negative="n")),
        ("sd3.5_simple_example", official.text_to_image("sd3", "p", 1, (64, 64), negative="n")),
        ("image_flux2_fp8", official.flux2_dev("p", 1, IMAGES[:2], (64, 64))),
        ("image_boogu_image_0_1_turbo_t2i", newer.from_text("boogu", "p", 1, (64, 64))),
        ("image_ernie_image", newer.from_text("ernie", "p", 1, (64, 64), negative="n")),
        ("image_ernie_image_turbo", newer.from_text("ernie", "p", 1, (64, 64))),
        ("image_krea2_turbo_t2i", newer.from_text("krea2", "p", 1, (64, 64))),
        ("image_longcat_text_to_image", newer.from_text("longcat", "p", 1, (64, 64), negative="n")),
        ("image_longcat_image_edit", newer.longcat_edit("p", 1, "a", (64, 64))),
        ("image_mage_flow_t2i_int8", newer.mage_flow("p", 1, (), (64, 64))),
        ("image_firered_image_edit1_1", read.firered("p", 1, ("a",), (64, 64))),
        ("image_krea2_turbo_int8_image_style_reference", newer.krea2_style("p", 1, IMAGES, (64, 64))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_wires_are_the_same(host_home: HostHome, name: str, graph: Graph) -> None:
    workflow = template(host_home, name)
    numbers = [None, *range(len(workflow.get("definitions", {}).get("subgraphs", [])))]
    wanted = wires_of_graph(graph)
    found = [wires_of_template(workflow, number) for number in numbers]
    assert wanted in found, min((wanted ^ wires for wires in found), key=len)


@pytest.mark.parametrize(
    ("name", "graph"),
    [
        ("image_boogu_image_0_1_edit", newer.boogu_edit("p", 1, ("a",), (64, 64))),
        ("image_joyai_image_edit", newer.joyimage_edit("p", 1, ("a",), (64, 64), negative="n")),
    ],
)
def test_links_are_the_same_with_the_image_size_outside(host_home: HostHome, name: str, graph: Graph) -> None:
    wanted, found = wires_of_graph(graph), wires_of_template(template(host_home, name), None)
    assert wanted == found, wanted ^ found


def test_omnigen2_s_edit_is_the_template_with_its_second_image(host_home: HostHome) -> None:
    graph = official.omnigen2("p", 1, IMAGES[:2], 1.0, guidance=2.0, **GUIDED)
    assert wires_of_graph(graph) == wires_of_template(
        template(host_home, "image_omnigen2_image_edit"), None, True
    )


@pytest.mark.parametrize(
    ("name", "number", "kind", "wanted"),
    [
        ("flux_kontext_dev_basic", 0, "FluxGuidance", [2.5]),
        ("image_flux2_fp8", 0, "FluxGuidance", [4]),
        ("image_omnigen2_image_edit", None, "DualCFGGuider", [5, 2, "regular"]),
        ("image_qwen_image_edit_2511", 0, "FluxKontextMultiReferenceLatentMethod", ["index_timestep_zero"]),
        ("image_flux2_fp8", 0, "ImageScaleToTotalPixels", ["area", 1, 1]),
        ("image_flux2", None, "ImageScaleToTotalPixels", ["lanczos", 1, 1]),
        ("image_omnigen2_image_edit", None, "ImageScaleToTotalPixels", ["area", 1]),
    ],
)
def test_the_values_are_the_same(
    host_home: HostHome, name: str, number: int | None, kind: str, wanted: list[Any]
) -> None:
    workflow = template(host_home, name)
    graph = workflow if number is None else workflow["definitions"]["subgraphs"][number]
    found = [one["widgets_values"] for one in graph["nodes"] if one["type"] == kind]
    assert found and all(values == wanted for values in found)
