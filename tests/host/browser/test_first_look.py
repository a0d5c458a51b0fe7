"""A template on a small screen: its text is readable.

With Nodes 2.0, whose nodes are taller, no node touches another one or crosses the border of a group.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ..graphs.template_names import NAMES, template_path
from ..server.comfy_server import ComfyServer
from .page import opened, screenshot

READABLE = 8 / 14
"""Scale below which the canvas shows no text."""
MIN_GAP = 6
BOXES = """() => {
  const {scale, offset} = app.canvas.ds;
  const titles = new Map(app.graph._nodes.map(node => [String(node.id), node.title]));
  return [...document.querySelectorAll('.lg-node')].map(element => {
    const box = element.getBoundingClientRect();
    const left = box.left / scale - offset[0], top = box.top / scale - offset[1];
    const size = [box.width / scale, box.height / scale];
    return {name: titles.get(element.dataset.nodeId), box: [left, top, ...size]};
  });
}"""
GROUPS = "() => app.graph._groups.map(group => ({name: group.title, box: Array.from(group._bounding)}))"
AT = "() => [app.canvas.ds.scale, ...app.canvas.ds.offset]"
LABELS = """() => app.graph._nodes.flatMap(node => (node.inputs ?? [])
  .filter(input => input.name.startsWith('images.'))
  .map(input => input.label ?? input.localized_name ?? input.name))"""
LOAD = "async graph => await app.loadGraphData(graph, true, true, 'mine')"

Box = list[float]


@pytest.fixture
def small(canvas: tuple[Any, str], host: ComfyServer) -> Iterator[tuple[Any, str]]:
    """The page on a screen of 1280 x 720 in either way to show nodes, with the templates' input image."""
    host.put_input(Image.new("RGB", (512, 512), (200, 90, 40)), "example.png")
    page, way = canvas
    page.set_viewport_size({"width": 1280, "height": 720})
    page.wait_for_timeout(300)
    yield page, way


def gap(one: Box, other: Box) -> float:
    """Return the distance of two boxes, below 0 if they overlap."""
    across = max(other[0] - one[0] - one[2], one[0] - other[0] - other[2])
    down = max(other[1] - one[1] - one[3], one[1] - other[1] - other[3])
    return max(across, down)


def inside(one: Box, other: Box) -> bool:
    ends = (one[0] + one[2], one[1] + one[3]), (other[0] + other[2], other[1] + other[3])
    return one[0] >= other[0] and one[1] >= other[1] and ends[0][0] <= ends[1][0] and ends[0][1] <= ends[1][1]


def faults(nodes: list[dict[str, Any]], groups: list[dict[str, Any]]) -> list[str]:
    """Nodes that touch and nodes across the border of a group."""
    found = [
        f"{one['name']} touches {other['name']}"
        for index, one in enumerate(nodes)
        for other in nodes[index + 1 :]
        if gap(one["box"], other["box"]) < MIN_GAP - 0.5
    ]
    return found + [
        f"{one['name']} is across the border of {group['name']}"
        for one in nodes
        for group in groups
        if gap(one["box"], group["box"]) < 0 and not inside(one["box"], group["box"])
    ]


def test_every_template_is_readable_without_overlaps(small: tuple[Any, str], tmp_path: Path) -> None:
    page, way = small
    wrong = {}
    for name in NAMES:
        opened(page, name)
        page.wait_for_timeout(1500 if way == "vue" else 300)
        scale = page.evaluate(AT)[0]
        found = [] if scale >= READABLE else [f"opens at {scale:.3f}"]
        found += faults(page.evaluate(BOXES), page.evaluate(GROUPS)) if way == "vue" else []
        if found:
            wrong[name] = found
        screenshot(page, f"first-{way}-{name}", tmp_path)
    assert wrong == {}


def test_a_view_that_a_person_saved_stays(small: tuple[Any, str]) -> None:
    page, _ = small
    graph = json.loads(template_path("tiny_world_story").read_text(encoding="utf-8"))
    graph["extra"]["ds"] = {"scale": 0.4, "offset": [150, 180]}
    page.evaluate(LOAD, graph)
    page.wait_for_timeout(500)
    assert page.evaluate(AT) == [0.4, 150, 180]


def test_a_workflow_that_was_saved_with_ids_as_labels_shows_the_names(page: Any) -> None:
    graph = json.loads(template_path("guided_continuation").read_text(encoding="utf-8"))
    for node in graph["nodes"]:
        for one in node.get("inputs", []):
            if one["name"].startswith("images."):
                one["label"] = one["name"].partition(".")[2]
    page.evaluate(LOAD, graph)
    page.wait_for_timeout(500)
    assert page.evaluate(LABELS) == ["image 1", "image 2", "image 3"]
