"""The example graphs in API form, as the front end makes them (`api/`), and what they need to run small.

The host has no converter from the front end's form, so the twins are committed and the browser test
checks that the front end still makes them; every other test then runs an example without a browser. What is
set to run them small is said once, by class and title, for both.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.chat_server import chat_server
from support.image_service import image_service
from support.stories import make_trajectory

from interleave_thinker.backend.output.exporters import export_by_name

from ..server.comfy_server import ROOT, ComfyServer
from .stories import Graph

BUILT_IN = ("tiny_world_story", "plan_by_hand", "judge_only", "feedback_round_trip")
TWINS = Path(__file__).parent / "api"
CHECKPOINTS = ROOT / "tinyworld" / "checkpoints"
KLEIN_AGENT = "Qwen3-VL-4B-Instruct"
AGENTS = {
    KLEIN_AGENT: "planner",
    "InterleaveThinker-Planner-8B": "planner",
    "InterleaveThinker-Critic-8B": "critic",
}
"""Folders of agents that the graphs name, and the tiny world's agent that stands in for each."""
PIPELINE = "stabilityai/sdxl-turbo"
REQUEST = "Show a meadow with a red house in the middle. Then add a yellow sun at the top left."
STEPS = [
    {
        "step_number": number,
        "step_name": f"Step {number}",
        "instruction": None,
        "prompt": prompt,
        "auxiliary_text": "So.",
    }
    for number, prompt in enumerate(("a bowl of dough", "put it into the oven"), 1)
]
INPUT_IMAGE = "example.png"
FINISHED = "finished story.zip"
"""A finished story in the input folder."""


@dataclass(frozen=True)
class Change:
    """Values to set at the nodes of a class: at all of them, or at those with a title."""

    class_type: str
    inputs: dict[str, Any]
    title: str | None = None


def twin(name: str) -> Graph:
    """An example graph in API form."""
    return json.loads((TWINS / f"{name}.json").read_text(encoding="utf-8"))


def need_checkpoints() -> None:
    """Skip the test if the tiny world's agents and generator are missing."""
    missing = [part for part in ("planner", "critic", "generator") if not (CHECKPOINTS / part).is_dir()]
    if missing:
        pytest.skip(f"The tiny world's {', '.join(missing)} must be trained first: {CHECKPOINTS} has none.")


def place_agents(host: ComfyServer) -> None:
    """Put the tiny world's agents where the graphs look for theirs."""
    agents = host.base / "models" / "interleave_agents"
    agents.mkdir(parents=True, exist_ok=True)
    for name, job in AGENTS.items():
        if not (agents / name).exists():
            (agents / name).symlink_to(CHECKPOINTS / job, target_is_directory=True)


def need_models(host: ComfyServer, name: str) -> None:
    """Skip the run of an example whose models this host does not know; it opens there all the same."""
    node = NEEDED_NODES.get(name)
    if node and not host.get(f"/object_info/{node}"):
        pytest.skip(f"This ComfyUI has no {node}, and so not the model that the template draws with.")


@contextmanager
def requirements(host: ComfyServer, name: str) -> Iterator[list[Change]]:
    """What an example graph needs, and what to set so that it runs small."""
    need_checkpoints()
    place_agents(host)
    host.put_input(Image.new("RGB", (96, 96), "skyblue"), INPUT_IMAGE)
    with ExitStack() as stack:
        if name == "remote_agents":
            yield remote(stack)
            return
        if name == "diffusers_pipeline_story":
            place_pipeline(host)
        if name == "moving_story":
            shutil.copy(
                export_by_name("zip", make_trajectory(3), host.base / "output" / "zipped"),
                host.base / "input" / FINISHED,
            )
        yield [] if name in BUILT_IN else small(name)


def small(name: str, side: int = 128) -> list[Change]:
    """Return changes for a short run: a request for the tiny world's agents, small images, few attempts."""
    request = "<image> " * SHOWN_IMAGES.get(name, 0) + REQUEST
    size = {"width": side, "height": side}
    plan = {"request": request, "step_count": 0, "captions": "as requested", "style": ""}
    return [
        *([] if name in LISTED else [Change("InterleavePlanner", plan)]),
        Change("InterleaveStepGenerator", size | {"steps": 2}),
        Change("InterleaveDiffusersGenerator", size | {"steps": 2}),
        Change("EmptyLatentImage", size),
        Change("KSampler", {"steps": 2}),
        Change("EmptyFlux2LatentImage", size),
        Change("Flux2Scheduler", size | {"steps": 2}),
        Change("EmptyImage", size),
        Change("PrimitiveStringMultiline", {"value": REQUEST}),
        Change("InterleaveCriticLoop", TWO_TRIES),
        Change("InterleaveTryClose", {"max_attempts": 2}),
        *([Change("InterleaveLoadAgent", {"agent": "tiny world critic"})] if name in JUDGED else []),
        *([PROMPT_IN_ITS_WORDS] if name in PROMPTED else []),
        *OF_ONE.get(name, []),
    ]


TEXTS_ALONE = """1. Reach
   text: The gripper moves above the red cube.
2. Grasp
   text: The fingers close around it.
"""
PAGES_IN_ITS_WORDS = """1. Meadow
   draw: a meadow with a red house in the middle
   text: So.
2. Sun
   draw: add a yellow sun at the top left
"""
"""The tiny world's critic cannot read the pages of a real book."""
PROMPT_IN_ITS_WORDS = Change("InterleaveTryOpen", {"prompt": "a meadow with a red house in the middle"})
"""The tiny world's critic knows these words. Its verdicts on others cannot be read, which stops a run."""
OF_ONE = {
    # A trained critic without an adapter: the host's Python has no peft.
    "own_critic": [
        Change("InterleaveLoadAgent", {"agent": "tiny world critic", "adapter": "none"}, "Judging agent")
    ],
    "best_of_four": [Change("InterleaveCriticLoop", {"max_attempts": 4, "candidates": 4})],
    # The tiny world's planner always writes prompts.
    "sub_task_annotation": [Change("InterleaveEditPlan", {"edits": TEXTS_ALONE})],
    "picture_book": [
        Change("InterleaveEditPlan", {"edits": PAGES_IN_ITS_WORDS}),
        Change("InterleaveCast", {"name": "sun", "traits": "round face"}, "Hero"),
    ],
    "moving_story": [
        Change("InterleaveLoadTrajectory", {"story": f"input/{FINISHED}"}),
        Change("InterleaveClipList", {"seconds": 0.3, "megapixels": 0.02}),
    ],
    # Only the third step has an earlier image next to the one that it edits.
    "earlier_images": [Change("InterleavePlanner", {"request": f"{REQUEST} Then set the scene to night."})],
}
"""Further changes of single graphs."""
PROMPTED = ("your_own_nodes_until_right", "controlnet_and_upscale_in_the_loop", "hosted_node")
"""Graphs whose step has its prompt at Attempt Start."""
TWO_TRIES = {"max_attempts": 2, "accept_at": 0.0, "keep": "best", "candidates": 1}
SHOWN_IMAGES = {
    "qwen_image_edit_story": 1, "guided_continuation": 2, "travel_narrative": 1, "three_photos": 3,
    "robot_manipulation": 1, "sub_task_annotation": 3,
}  # fmt: skip
"""Number of images that a graph passes to its planner."""

JUDGED = (
    "your_own_nodes_until_right",
    "controlnet_and_upscale_in_the_loop",
    "inpaint_what_the_step_names",
    "hosted_node",
)
"""Graphs whose only agent judges."""

NEEDED_NODES = {"one_encoder_two_jobs": "TextEncodeMageFlowEdit"}
"""The host's node without which a graph cannot run."""

LISTED = ("a_list_of_stories",)
"""Graphs whose requests come as a list."""


def remote(stack: ExitStack) -> list[Change]:
    """Start servers that plan, judge and generate, and yield their addresses."""
    plan = json.dumps({"execution_plan": STEPS})
    verdict = json.dumps({"previous_step_success": True, "refine_prompt": ""})
    planner = stack.enter_context(chat_server(f"<think>easy</think><answer>{plan}</answer>"))
    critic = stack.enter_context(chat_server(f"<think>looked</think><answer>{verdict}</answer>"))
    service = stack.enter_context(image_service())
    return [
        Change("InterleaveRemoteAgent", {"base_url": address(planner)}, "Planning agent"),
        Change("InterleaveRemoteAgent", {"base_url": address(critic)}, "Judging agent"),
        Change("InterleaveServiceGenerator", {"url": service.url}),
    ]


def address(server: Any) -> str:
    return server.spec.partition("@")[2]


def place_pipeline(host: ComfyServer) -> None:
    """Put a tiny pipeline where the graph looks for its own."""
    folder = host.base / "models" / "diffusers" / PIPELINE
    if not folder.exists():
        from support.tiny_pipelines import stable_diffusion

        folder.parent.mkdir(parents=True, exist_ok=True)
        stable_diffusion(folder)


def changed(graph: Graph, changes: list[Change]) -> Graph:
    """The graph with these values at its nodes."""
    for change in changes:
        for node in graph.values():
            if node["class_type"] == change.class_type and change.title in (None, node["_meta"]["title"]):
                node["inputs"] |= change.inputs
    return judged_by_the_critic(graph)


def judged_by_the_critic(graph: Graph) -> Graph:
    """Return the graph with the tiny world's critic, if its one agent also judges.

    The stand-in for that agent is a planner, and a critic with unreadable verdicts stops a run.
    """
    agents = {
        key: node
        for key, node in graph.items()
        if node["class_type"] == "InterleaveLoadAgent" and node["inputs"]["agent"] == KLEIN_AGENT
    }
    for node in list(graph.values()):
        judge = node["inputs"].get("critic")
        if isinstance(judge, list) and judge[0] in agents:
            own = agents[judge[0]]
            graph["own_critic"] = own | {"inputs": own["inputs"] | {"agent": "tiny world critic"}}
            node["inputs"]["critic"] = ["own_critic", 0]
    return graph


def id_of(graph: Graph, class_type: str) -> str:
    """Return the id of the only node of a class."""
    (found,) = [key for key, node in graph.items() if node["class_type"] == class_type]
    return found
