"""The hand-written official graphs are still those of the installed templates, wire for wire.

Left out on both sides: the loaders and what patches the MODEL (before either graph), what writes a longer
prompt, and the nodes that hold a number.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.host_home import HostHome

from ..graphs import official
from ..graphs.official import GUIDED, SMALL, Graph, from_text
from ..server.rigs import template

Wire = tuple[str, str, str]
LEFT_OUT = {
    "UNETLoader", "CLIPLoader", "DualCLIPLoader", "VAELoader", "CheckpointLoaderSimple",
    "LoraLoaderModelOnly",
    "ModelSamplingAuraFlow", "ModelSamplingFlux", "CFGNorm", "ComfySwitchNode", "InterleaveTestFamily",
    "LoadImage", "SaveImage", "PrimitiveInt", "PrimitiveFloat", "PrimitiveStringMultiline", "ImageStitch",
    "PreviewAny", "StringConcatenate", "StringReplace", "TextGenerate", "ImageCompare", "SaveImageAdvanced",
}  # fmt: skip
BYPASSED = 4


def wires_of_template(workflow: dict[str, Any], number: int | None, active: bool = False) -> set[Wire]:
    """Return the wires of a subgraph (the whole graph for None), nested ones flattened.

    `active` True includes bypassed nodes.
    """
    subgraphs = {one["id"]: one for one in workflow.get("definitions", {}).get("subgraphs", [])}
    graph = workflow if number is None else workflow["definitions"]["subgraphs"][number]
    return {wire for wire in _wires(graph, subgraphs, active) if not LEFT_OUT & set(wire[:2])}


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
    """The real nodes (and their socket) behind a socket of a node, which may be a subgraph."""
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
    return {wire for wire in wires if not LEFT_OUT & set(wire[:2])}


ONE, TWO, THREE = (("a.png", "b.png", "c.png")[:count] for count in (1, 2, 3))
GIVEN: tuple[str, int] = ("p", 1)
WIRED: dict[str, Graph] = {
    "image_flux2_klein_text_to_image": official.klein(*GIVEN, (), SMALL),
    "image_flux2_klein_text_to_image base": official.klein(*GIVEN, (), SMALL, negative=""),
    "image_flux2_klein_image_edit_4b_distilled": official.klein(*GIVEN, TWO, SMALL),
    "image_flux2_klein_image_edit_4b_base": official.klein(*GIVEN, ONE, SMALL, negative=""),
    "flux_kontext_dev_basic": official.kontext(*GIVEN, ONE),
    "image_qwen_image_edit": official.qwen_edit(*GIVEN, ONE, SMALL),
    "image_qwen_image_edit_2509": official.qwen_edit_plus(*GIVEN, THREE),
    "image_qwen_image_edit_2511": official.qwen_edit_plus(*GIVEN, THREE, method="index_timestep_zero"),
    "image_omnigen2_t2i": official.omnigen2(*GIVEN, (), SMALL, **GUIDED),
    "image_z_image_turbo": from_text("z-image", *GIVEN, SMALL),
    "image_z_image": from_text("z-image", *GIVEN, SMALL, negative="n"),
    "image_qwen_image": from_text("qwen image", *GIVEN, SMALL, negative="n"),
    "default": from_text("sd15", *GIVEN, SMALL, negative="n"),
    "sd3.5_simple_example": from_text("sd3", *GIVEN, SMALL, negative="n"),
    "image_flux2_fp8": official.flux2_dev(*GIVEN, TWO, SMALL),
    "image_boogu_image_0_1_turbo_t2i": from_text("boogu", *GIVEN, SMALL),
    "image_ernie_image": from_text("ernie", *GIVEN, SMALL, negative="n"),
    "image_ernie_image_turbo": from_text("ernie", *GIVEN, SMALL),
    "image_krea2_turbo_t2i": from_text("krea2", *GIVEN, SMALL),
    "image_longcat_text_to_image": from_text("longcat", *GIVEN, SMALL, negative="n"),
    "image_longcat_image_edit": official.longcat_edit(*GIVEN, ONE, SMALL),
    "image_mage_flow_t2i_int8": official.mage_flow(*GIVEN, (), SMALL),
    "image_firered_image_edit1_1": official.firered(*GIVEN, ONE, SMALL),
    "image_krea2_turbo_int8_image_style_reference": official.krea2_style(*GIVEN, THREE, SMALL),
    # The size of the image is outside of the subgraph, or the second image is bypassed.
    "image_boogu_image_0_1_edit": official.boogu_edit(*GIVEN, ONE, SMALL),
    "image_joyai_image_edit": official.joyimage_edit(*GIVEN, ONE, SMALL, negative="n"),
    "image_omnigen2_image_edit active": official.omnigen2(*GIVEN, TWO, SMALL, **GUIDED),
}


@pytest.mark.parametrize("name", WIRED)
def test_the_wires_are_the_same(host_home: HostHome, name: str) -> None:
    workflow = template(host_home, name.partition(" ")[0])
    numbers = [None, *range(len(workflow.get("definitions", {}).get("subgraphs", [])))]
    wanted = wires_of_graph(WIRED[name])
    found = [wires_of_template(workflow, number, name.endswith("active")) for number in numbers]
    assert wanted in found, min((wanted ^ wires for wires in found), key=len)


KLEIN = ("Text to Image", "Image Edit")
KLEIN_EDITS = ("image_edit_4b_distilled", "image_edit_4b_base")


@pytest.mark.parametrize(
    ("name", "part", "kind", "wanted"),
    [
        ("flux_kontext_dev_basic", 0, "FluxGuidance", [2.5]),
        ("image_flux2_fp8", 0, "FluxGuidance", [4]),
        ("image_omnigen2_image_edit", None, "DualCFGGuider", [5, 2, "regular"]),
        ("image_qwen_image_edit_2511", 0, "FluxKontextMultiReferenceLatentMethod", ["index_timestep_zero"]),
        ("image_flux2_fp8", 0, "ImageScaleToTotalPixels", ["area", 1, 1]),
        ("image_flux2", None, "ImageScaleToTotalPixels", ["lanczos", 1, 1]),
        ("image_omnigen2_image_edit", None, "ImageScaleToTotalPixels", ["area", 1]),
        *(
            (f"image_flux2_klein_{file}", f"{words} (Flux.2 Klein 4B{model})", kind, [value])
            for words, files in zip(KLEIN, (("text_to_image",) * 2, KLEIN_EDITS), strict=True)
            for model, file, steps, cfg in zip((" Distilled", ""), files, (4, 20), (1, 5), strict=True)
            for kind, value in (("KSamplerSelect", "euler"), ("Flux2Scheduler", steps), ("CFGGuider", cfg))
        ),
    ],
)
def test_the_values_are_the_same(
    host_home: HostHome, name: str, part: int | str | None, kind: str, wanted: list[Any]
) -> None:
    workflow = template(host_home, name)
    graphs = [] if part is None else workflow["definitions"]["subgraphs"]
    graph = next((one for number, one in enumerate(graphs) if part in (number, one["name"])), workflow)
    found = [one["widgets_values"][: len(wanted)] for one in graph["nodes"] if one["type"] == kind]
    assert found and all(values == wanted for values in found)
