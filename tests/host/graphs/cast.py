"""A cast of two chained Cast nodes: a character with a photo and a prop without one."""

from __future__ import annotations

from .klein import Graph, node

TRAITS = "girl of seven\nshort black hair\nred coat"


def members(photo: str, traits: str = TRAITS) -> Graph:
    """Return the nodes for an input image. `lantern` is the last one, to be connected to Edit Plan."""
    mia = {"name": "Mia", "kind": "character", "traits": traits, "images.image0": ["photo", 0]}
    return {
        "photo": node("LoadImage", image=photo),
        "mia": node("InterleaveCast", **mia),
        "lantern": node("InterleaveCast", name="lantern", kind="prop", traits="brass", cast="@mia"),
    }


def with_cast(graph: Graph, photo: str, traits: str = TRAITS) -> Graph:
    """Return a graph with Edit Plan (`edit`), to which the cast is connected."""
    edit = {**graph["edit"], "inputs": {**graph["edit"]["inputs"], "cast": ["lantern", 0]}}
    return graph | members(photo, traits) | {"edit": edit}
