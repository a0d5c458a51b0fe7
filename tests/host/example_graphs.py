"""The example graphs in API form, as the front end makes them (`api/`), and what they need to run small.

Decision: the host has no converter from the front end's form, so the twins are committed and the browser test checks
that the front end still makes them; every other test then runs an example without a browser.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .comfy_server import ROOT, ComfyServer
from .klein_graphs import Graph

NAMES = ("tiny_world_story", "flux2_klein_4b_story")
TWINS = Path(__file__).parent / "api"
CHECKPOINTS = ROOT / "backend" / "tinyworld" / "checkpoints"
KLEIN_AGENT = "Qwen3-VL-4B-Instruct"
REQUEST = "Show a meadow with a red house in the middle. Then add a yellow sun at the top left."


def twin(name: str) -> Graph:
    """An example graph in API form."""
    return json.loads((TWINS / f"{name}.json").read_text(encoding="utf-8"))


def need_checkpoints() -> None:
    """Skip a test for which the tiny world's agents and generator are not there."""
    missing = [part for part in ("planner", "critic", "generator") if not (CHECKPOINTS / part).is_dir()]
    if missing:
        pytest.skip(f"The tiny world's {', '.join(missing)} must be trained first: {CHECKPOINTS} has none.")


def lend_agent(host: ComfyServer) -> None:
    """Put the tiny world's planner where the klein graph looks for its agent."""
    folder = host.base / "models" / "interleave_agents" / KLEIN_AGENT
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not folder.exists():
        folder.symlink_to(CHECKPOINTS / "planner", target_is_directory=True)


def made_small(graph: Graph, request: str = REQUEST, side: int = 128, attempts: int = 2) -> Graph:
    """The graph with a request that the lent agent understands, small images and few tries."""
    for node in graph.values():
        if node["class_type"] == "InterleavePlanner":
            node["inputs"]["request"] = request
        if node["class_type"] == "InterleaveStepGenerator":
            node["inputs"] |= {"width": side, "height": side}
        if node["class_type"] == "InterleaveCriticLoop":
            node["inputs"]["max_attempts"] = attempts
    return graph


def id_of(graph: Graph, class_type: str) -> str:
    """Id of the only node of a class."""
    (found,) = [key for key, node in graph.items() if node["class_type"] == class_type]
    return found
