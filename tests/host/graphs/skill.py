"""The graphs of skills/interleaved-story, made from the examples: python -m tests.host.graphs.skill.

A program that queues a graph needs named nodes, no preview nodes, and one result file. So each graph is its
example with ids made of the nodes' titles, without previews, and with an Export node `story` at its end. They
are committed, and a test compares them with the examples.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

Graph = dict[str, Any]

ROOT = Path(__file__).resolve().parents[3]
SKILL = ROOT / "skills" / "interleaved-story"
API = Path(__file__).parent / "api"
SLOTS_FILE = "slots.json"
ONLY_SHOWS = ("PreviewAny", "PreviewImage", "InterleaveStoryboard", "InterleaveExport")
SLOTS: dict[tuple[str, str], tuple[str, str]] = {
    ("InterleavePlanner", "request"): (
        "request",
        "the request, in the person's own words; one `<image>` for each image",
    ),
    ("InterleavePlanner", "step_count"): ("steps", "number of steps; 0 lets the planner decide"),
    ("InterleavePlanner", "captions"): ("captions", "whether every image has a caption"),
    ("InterleaveEditPlan", "edits"): (
        "plan",
        "the plan, one block per step: `1. NAME`, `   draw: PROMPT`, `   text: SENTENCE`",
    ),
    ("InterleaveEditPlan", "request"): ("request", "topic of the story, used as its title"),
    ("InterleaveCriticLoop", "max_attempts"): ("attempts", "maximum attempts; 1 disables the critic"),
    ("InterleaveCriticLoop", "seed"): ("seed", "a different seed generates every step again"),
    ("InterleaveCriticLoop", "time_budget"): ("seconds", "time limit of the run in seconds; 0 disables it"),
    ("InterleaveStepGenerator", "width"): ("width", "image width in pixels"),
    ("InterleaveStepGenerator", "height"): ("height", "image height in pixels"),
    ("InterleaveStepGenerator", "negative"): ("negative", "negative prompt, if the model supports one"),
    ("InterleaveExport", "filename_prefix"): ("name", "path of the result in ComfyUI's output folder"),
}
MEMBER = {
    "name": "name of this member of the cast, the word that prompts use",
    "traits": "its visual traits, one per line, at most 4; they never change",
}
"""Inputs of Cast: the slot is called as its node and the input."""
NO_STORY = ("InterleaveFeedback", "InterleaveJudge")
"""Nodes for which an example is there, and not for its story."""
NAMED_BY_TITLE = {
    ("InterleaveLoadAgent", "agent"),
    ("InterleaveRemoteAgent", "model"),
    ("LoadImage", "image"),
}
"""Inputs that a graph may have several of: the slot is called as its node."""
LOADERS = {
    "UNETLoader": "unet_name",
    "CLIPLoader": "clip_name",
    "VAELoader": "vae_name",
    "CheckpointLoaderSimple": "ckpt_name",
}


def names() -> list[str]:
    """Return the names of the examples that generate a whole story."""
    graphs = {path.stem: _read(path) for path in sorted(API.glob("*.json"))}
    return [
        name
        for name, graph in graphs.items()
        if any(node["class_type"] == "InterleaveCriticLoop" for node in graph.values())
        and all(node["class_type"] not in NO_STORY for node in graph.values())
    ]


def skill_graph(name: str) -> Graph:
    """An example as the skill has it."""
    example = {
        key: node for key, node in _read(API / f"{name}.json").items() if node["class_type"] not in ONLY_SHOWS
    }
    ids = _ids(example)
    graph: Graph = {}
    for key, node in example.items():
        inputs = {name: _linked(value, ids) for name, value in node["inputs"].items()}
        graph[ids[key]] = {**node, "inputs": inputs}
    (loop,) = [ids[key] for key, node in example.items() if node["class_type"] == "InterleaveCriticLoop"]
    graph["story"] = {
        "inputs": {
            "trajectory": [loop, 2],
            "format": "story for programs (JSON)",
            "filename_prefix": f"interleave-thinker/export/{name}",
            "seconds": 2,
            "attempts": False,
        },
        "class_type": "InterleaveExport",
        "_meta": {"title": "Story"},
    }
    return graph


def slots(graph: Graph) -> dict[str, dict[str, Any]]:
    """A value that programs can set, by name: `address` is NODE.INPUT, `value` the graph's own."""
    found: dict[str, dict[str, Any]] = {}
    for key, node in graph.items():
        for name, value in node["inputs"].items():
            if isinstance(value, list):
                continue
            slot = SLOTS.get((node["class_type"], name))
            if (node["class_type"], name) in NAMED_BY_TITLE:
                slot = (
                    key,
                    "file name of an image in ComfyUI's input folder"
                    if name == "image"
                    else "name of the model",
                )
            if node["class_type"] == "InterleaveCast" and name in MEMBER:
                slot = (f"{key}_{name}", MEMBER[name])
            if LOADERS.get(node["class_type"]) == name:
                slot = (name.removesuffix("_name"), "file of this part of the image model")
            # The request is that of the Planner, also if an Edit Plan follows.
            if slot and slot[0] not in found:
                found[slot[0]] = {"address": f"{key}.{name}", "value": value, "about": slot[1]}
    return found


def files() -> dict[str, str]:
    """Return every generated file of the skill by name."""
    graphs = {name: skill_graph(name) for name in names()}
    made = {f"{name}.json": _text(graph) for name, graph in graphs.items()}
    made[SLOTS_FILE] = _text({name: slots(graph) for name, graph in graphs.items()})
    return made


def _ids(graph: Graph) -> dict[str, str]:
    ids: dict[str, str] = {}
    for key, node in graph.items():
        slug = re.sub(r"[^a-z0-9]+", "_", node["_meta"]["title"].lower()).strip("_")
        assert slug not in ids.values(), f"two nodes are called {slug!r}"
        ids[key] = slug
    return ids


def _linked(value: Any, ids: dict[str, str]) -> Any:
    return [ids[value[0]], value[1]] if isinstance(value, list) else value


def _read(path: Path) -> Graph:
    return json.loads(path.read_text(encoding="utf-8"))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


if __name__ == "__main__":
    SKILL.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (SKILL / name).write_text(text, encoding="utf-8")
