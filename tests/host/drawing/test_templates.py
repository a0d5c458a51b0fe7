"""The hand-written official workflows equal the installed templates, node for node."""

from __future__ import annotations

from typing import Any

import pytest
from support.host_home import HostHome

from ..graphs.klein import Graph, image_edit, text_to_image
from ..server.templates import template

TEXT = ("image_flux2_klein_text_to_image", "Text to Image (Flux.2 Klein 4B Distilled)")
TEXT_BASE = ("image_flux2_klein_text_to_image", "Text to Image (Flux.2 Klein 4B)")
EDIT = ("image_flux2_klein_image_edit_4b_distilled", "Image Edit (Flux.2 Klein 4B Distilled)")
EDIT_BASE = ("image_flux2_klein_image_edit_4b_base", "Image Edit (Flux.2 Klein 4B)")
OUTSIDE = {"SaveImage", "LoadImage", "PrimitiveInt"}
"""Nodes around the templates' sub-graphs, and the ones that only hold a number."""


def wires_of_template(workflow: dict[str, Any], name: str) -> set[tuple[str, str, str]]:
    """(from class, to class, input) of every wire, nested sub-graphs laid flat."""
    subgraphs = {one["id"]: one for one in workflow["definitions"]["subgraphs"]}
    found = next(one for one in subgraphs.values() if one["name"] == name)
    return {
        (source, target, name)
        for source, target, name in _wires(found, subgraphs)
        if not OUTSIDE & {source, target}
    }


def _wires(graph: dict[str, Any], subgraphs: dict[str, Any]) -> set[tuple[str, str, str]]:
    nodes = {node["id"]: node for node in graph["nodes"]}
    wires = set()
    for link in graph["links"]:
        origin, target = nodes.get(link["origin_id"]), nodes.get(link["target_id"])
        if origin is None or target is None:
            continue
        for source in _ends(origin, link["origin_slot"], subgraphs, "outputs"):
            for class_type, name in _ends(target, link["target_slot"], subgraphs, "inputs"):
                wires.add((source[0], class_type, name))
    for node in nodes.values():
        if node["type"] in subgraphs:
            wires |= _wires(subgraphs[node["type"]], subgraphs)
    return wires


def _ends(node: dict[str, Any], slot: int, subgraphs: dict[str, Any], side: str) -> list[tuple[str, str]]:
    """The real nodes (and their socket) behind a socket of a node, which may be a sub-graph."""
    inner = subgraphs.get(node["type"])
    if inner is None:
        return [(node["type"], node[side][slot]["name"] if node[side] else "")]
    by_id = {one["id"]: one for one in inner["nodes"]}
    border, slot_key, far, far_slot = (
        (-10, "origin_slot", "target_id", "target_slot")
        if side == "inputs"
        else (-20, "target_slot", "origin_id", "origin_slot")
    )
    near = "origin_id" if side == "inputs" else "target_id"
    return [
        end
        for link in inner["links"]
        if link[near] == border and link[slot_key] == slot
        for end in _ends(by_id[link[far]], link[far_slot], subgraphs, side)
    ]


def wires_of_graph(graph: Graph) -> set[tuple[str, str, str]]:
    """The same of a graph in API form."""
    wires = {
        (graph[value[0]]["class_type"], node["class_type"], name)
        for node in graph.values()
        for name, value in node["inputs"].items()
        if isinstance(value, list)
    }
    return {wire for wire in wires if not OUTSIDE & set(wire[:2])}


@pytest.mark.parametrize(
    ("place", "graph"),
    [
        (TEXT, text_to_image("p", 1, (64, 64))),
        (TEXT_BASE, text_to_image("p", 1, (64, 64), negative="")),
        (EDIT, image_edit("p", 1, "i.png", 1.0)),
        (EDIT_BASE, image_edit("p", 1, "i.png", 1.0, negative="")),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_the_wires_are_the_same(host_home: HostHome, place: tuple[str, str], graph: Graph) -> None:
    assert wires_of_graph(graph) == wires_of_template(template(host_home, place[0]), place[1])


@pytest.mark.parametrize(
    ("place", "steps", "cfg"), [(TEXT, 4, 1), (TEXT_BASE, 20, 5), (EDIT, 4, 1), (EDIT_BASE, 20, 5)]
)
def test_the_settings_are_the_same(host_home: HostHome, place: tuple[str, str], steps: int, cfg: int) -> None:
    workflow = template(host_home, place[0])
    found = next(one for one in workflow["definitions"]["subgraphs"] if one["name"] == place[1])
    values = {node["type"]: node["widgets_values"] for node in found["nodes"]}
    assert values["KSamplerSelect"] == ["euler"]
    assert values["Flux2Scheduler"][0] == steps
    assert values["CFGGuider"] == [cfg]
    assert values["CLIPLoader"][1] == "flux2"
    assert values.get("ImageScaleToTotalPixels", ["nearest-exact", 1, 1]) == ["nearest-exact", 1, 1]
