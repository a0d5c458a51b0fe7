"""Checks of an opened graph: nothing overlaps, and what the front end sends is what was exported."""

from __future__ import annotations

from typing import Any

BOXES = """() => app.graph._nodes.map(node => {
  const title = LiteGraph.NODE_TITLE_HEIGHT;
  return {name: node.title, box: [node.pos[0], node.pos[1] - title, node.size[0], node.size[1] + title]};
})"""
GROUPS = "() => app.graph._groups.map(group => ({name: group.title, box: Array.from(group._bounding)}))"
BACKWARDS = """() => Array.from(app.graph.links.values()).map(link => [
  app.graph.getNodeById(link.origin_id), app.graph.getNodeById(link.target_id),
]).filter(([from, to]) => from.pos[0] > to.pos[0]).map(([from, to]) => `${from.title} -> ${to.title}`)"""


def apart(one: list[float], other: list[float]) -> bool:
    return (
        one[0] + one[2] <= other[0]
        or other[0] + other[2] <= one[0]
        or one[1] + one[3] <= other[1]
        or other[1] + other[3] <= one[1]
    )


def inside(one: list[float], other: list[float]) -> bool:
    return (
        one[0] >= other[0]
        and one[1] >= other[1]
        and one[0] + one[2] <= other[0] + other[2]
        and one[1] + one[3] <= other[1] + other[3]
    )


def assert_tidy(page: Any) -> None:
    """Assert that nothing overlaps or crosses the border of a group, and that all links run to the right."""
    nodes, groups = page.evaluate(BOXES), page.evaluate(GROUPS)
    for index, one in enumerate(nodes):
        for other in nodes[index + 1 :]:
            assert apart(one["box"], other["box"]), f"{one['name']} overlaps {other['name']}"
        for group in groups:
            assert apart(one["box"], group["box"]) or inside(one["box"], group["box"]), (
                f"{one['name']} crosses the border of {group['name']}"
            )
    back = page.evaluate(BACKWARDS)
    assert back == [], f"wires that lead to the left: {back}"


def comparable(sent: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return a sent graph in comparable form.

    Without inputs that a newer host has added to its own nodes, without the shown text of Preview Any, which
    older front ends send as an input, and without the names of packs that newer ones add.
    """
    return {
        number: {
            "class_type": node["class_type"],
            "title": node["_meta"]["title"],
            "inputs": known_inputs(node, wanted.get(number)),
        }
        for number, node in sent.items()
    }


def known_inputs(node: dict[str, Any], wanted: dict[str, Any] | None) -> dict[str, Any]:
    if node["class_type"] == "PreviewAny":
        return {key: value for key, value in node["inputs"].items() if key not in ("preview", "previewMode")}
    if wanted is None or node["class_type"].startswith("Interleave"):
        return node["inputs"]
    return {key: value for key, value in node["inputs"].items() if key in wanted["inputs"]}
