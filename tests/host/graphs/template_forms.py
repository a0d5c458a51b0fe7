"""Parts of a template that are derived from its graph.

These are the names of widget values and the inputs and outputs of App mode (both for newer front ends), the
view that older ones open at, and the notes' colors. One rule serves all templates. `python
tests/host/graphs/template_forms.py` writes them into `workflows/`.
"""

from __future__ import annotations

import json
import math
from typing import Any

AFTER_RUN = ("fixed", "increment", "decrement", "randomize")
SEEDS = ("seed", "noise_seed")
NOTE_COLORS = {"color": "#2b3a4a", "bgcolor": "#14181d"}
"""Dark, since newer front ends show notes in gray, and commands in blue, on any background color."""
SCREEN = (1280, 720)
READABLE = 0.572
"""Smallest scale at which the canvas shows text."""
MARGINS = (72, 96, 12, 14)
"""Pixels at the left, top, right and bottom that are covered by the front ends' own bars."""
RUNS = 0
"""Mode of a node that is neither muted nor bypassed."""

SHOWN_INPUTS = (
    ("LoadImage", "image"), ("InterleaveLoadTrajectory", "story"), ("InterleaveClipList", "seconds"),
    ("InterleavePlanner", "request"), ("InterleavePlanner", "step_count"),
    ("InterleaveCast", "name", "traits"), ("InterleaveEditPlan", "edits"), ("InterleaveTryOpen", "prompt"),
    ("InterleaveJudge", "instruction"), ("InterleaveTryOpen", "seed"), ("InterleaveCriticLoop", "seed"),
)  # fmt: skip
"""Node types and their inputs in the order of App mode."""

SHOWN_OUTPUTS = ("InterleaveStoryboard", "SaveImage", "PreviewImage", "PreviewAny")
"""App mode shows the first of these types that the graph contains."""

WITHOUT_APP = {"feedback_round_trip": "its second half is unmuted on the canvas after the first run"}
"""Templates that App mode is not for, with the reason."""


def completed(workflow: dict[str, Any], name: str) -> dict[str, Any]:
    """The template with all of it, in the front end's own form."""
    nodes = [colored(with_named_values(with_own_names(node))) for node in workflow["nodes"]]
    app = {} if name in WITHOUT_APP else {"linearData": shown_in_app(workflow), "linearMode": False}
    kept = {key: value for key, value in workflow["extra"].items() if not key.startswith("linear")}
    return {**workflow, "nodes": nodes, "extra": {**kept, "ds": view(workflow), **app}}


def bounds(workflow: dict[str, Any]) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of all nodes (with titles) and groups."""
    boxes = [(*node["pos"], *node["size"], 30) for node in workflow["nodes"]]
    boxes += [(*group["bounding"], 0) for group in workflow["groups"]]
    return (
        min(x for x, *_ in boxes),
        min(y - title for _, y, _, _, title in boxes),
        max(x + width for x, _, width, *_ in boxes),
        max(y + height for _, y, _, height, _ in boxes),
    )


def view(workflow: dict[str, Any]) -> dict[str, Any]:
    """Return scale and offset that fit the graph into SCREEN, outside of the bars, if it stays readable."""
    left, top, right, bottom = bounds(workflow)
    width = SCREEN[0] - MARGINS[0] - MARGINS[2]
    height = SCREEN[1] - MARGINS[1] - MARGINS[3]
    fitted = min(width / (right - left), height / (bottom - top))
    scale = max(READABLE, math.floor(1000 * fitted) / 1000)
    return {"scale": scale, "offset": [round(MARGINS[0] / scale - left), round(MARGINS[1] / scale - top)]}


def with_own_names(node: dict[str, Any]) -> dict[str, Any]:
    """Return the node without labels that are input ids (`image0`), which hide the names in the locales."""
    inputs = [
        {key: value for key, value in one.items() if key != "label" or not one["name"].endswith(f".{value}")}
        for one in node.get("inputs", [])
    ]
    return node | {"inputs": inputs} if "inputs" in node else node


def colored(node: dict[str, Any]) -> dict[str, Any]:
    """A note in NOTE_COLORS; any other node as it is."""
    return node | NOTE_COLORS if node["type"] == "MarkdownNote" else node


def with_named_values(node: dict[str, Any]) -> dict[str, Any]:
    """The node with its widgets' values by name, too; as it is if it has none."""
    plain = {key: value for key, value in node.items() if key != "widgets_values_named"}
    values = node.get("widgets_values")
    return plain | {"widgets_values_named": named(node, values)} if values else plain


def named(node: dict[str, Any], values: list[Any]) -> dict[str, Any]:
    """A node's widget values by name. Raises ValueError if their number does not match its inputs."""
    if node["type"] in ("MarkdownNote", "Note"):
        return {"text": values[0]}
    names: list[str] = []
    for one in node["inputs"]:
        if "widget" not in one:
            continue
        names.append(one["widget"]["name"])
        if (
            names[-1] in SEEDS
            and values[len(names) : len(names) + 1][0:1]
            and values[len(names)] in AFTER_RUN
        ):
            names.append("control_after_generate")
    if len(names) != len(values):
        raise ValueError(f"{node['type']} has the widgets {names}, but {len(values)} values")
    return dict(zip(names, values, strict=True))


def shown_in_app(workflow: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the content of App mode: `inputs` as node id and widget name, `outputs` as node ids."""
    nodes = [node for node in workflow["nodes"] if node.get("mode", RUNS) == RUNS]
    inputs = [
        [node["id"], name]
        for kind, *names in SHOWN_INPUTS
        for node in nodes
        for name in names
        if node["type"] == kind and is_typed_in(node, name)
    ]
    by_kind = [[node["id"] for node in nodes if node["type"] == kind] for kind in SHOWN_OUTPUTS]
    return {"inputs": inputs, "outputs": next(filter(None, by_kind), [])}


def is_typed_in(node: dict[str, Any], name: str) -> bool:
    """Return whether this input has a widget and no link."""
    return any(
        one.get("widget", {}).get("name") == name and one.get("link") is None for one in node["inputs"]
    )


if __name__ == "__main__":
    from template_names import NAMES, template_path

    for name in NAMES:
        path = template_path(name)
        workflow = json.loads(path.read_text(encoding="utf-8"))
        # A value a line, for the diffs, and no blanks before it, for the archive.
        path.write_text(json.dumps(completed(workflow, name), indent=0) + "\n", encoding="utf-8")
