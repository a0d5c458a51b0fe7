"""Graphs in API form: nodes, changes of them, stories of the pack's nodes, and replies of scripted agents."""

from __future__ import annotations

import json
from typing import Any

Graph = dict[str, dict[str, Any]]

MODEL = "flux-2-klein-4b-fp8.safetensors"
CLIP = "qwen_3_4b.safetensors"
VAE = "flux2-vae.safetensors"
LOOP_INPUTS = {
    "max_attempts": 1, "accept_at": 0.0, "keep": "best", "source": "previous", "on_failure": "keep", "seed": 0
}  # fmt: skip
MORE_LOOP_INPUTS = frozenset({
    "as_published", "candidates", "check_story", "derive_checklist", "pause", "seed_rule", "strictness",
    "time_budget",
})  # fmt: skip
SAMPLING = {
    "steps": 4, "cfg": 1.0, "sampler": "euler", "scheduler": "flux2", "edit": "auto", "denoise": 0.75,
    "negative": "",
}  # fmt: skip
EXPORT = {"format": "PDF", "filename_prefix": "books/boat", "seconds": 1.0, "attempts": False}
TRAITS = "girl of seven\nshort black hair\nred coat"


def node(class_type: str, **inputs: Any) -> dict[str, Any]:
    """Return one node of a graph in API form. An input "@ID" is the first output of node ID."""
    links = {
        name: [value[1:], 0] if isinstance(value, str) and value.startswith("@") else value
        for name, value in inputs.items()
    }
    return {"class_type": class_type, "inputs": links}


TINY_WORLD = node("InterleaveTinyWorldGenerator")


def changed(graph: Graph, key: str, /, **inputs: Any) -> Graph:
    """The graph with other inputs at one node. `None` leaves an input unconnected."""
    merged = {**graph[key]["inputs"], **node("", **inputs)["inputs"]}
    kept = {name: value for name, value in merged.items() if value is not None}
    return {**graph, key: {**graph[key], "inputs": kept}}


def renamed(graph: Graph, *keys: str, before: str = "", after: str = "2") -> Graph:
    """The graph with other ids at these nodes (without `keys`: at all), to stand next to it."""
    ids = {key: f"{before}{key}{after}" for key in keys or graph}

    def moved(value: Any) -> Any:
        return [ids.get(value[0], value[0]), value[1]] if isinstance(value, list) else value

    return {
        ids.get(key, key): {**one, "inputs": {name: moved(value) for name, value in one["inputs"].items()}}
        for key, one in graph.items()
    }


def loaders() -> Graph:
    """FLUX.2 klein's model, text encoder and VAE under ids model, clip, vae."""
    return {
        "model": node("UNETLoader", unet_name=MODEL, weight_dtype="default"),
        "clip": node("CLIPLoader", clip_name=CLIP, type="flux2", device="default"),
        "vae": node("VAELoader", vae_name=VAE),
    }


def step_generator(size: tuple[int, int], **inputs: Any) -> dict[str, Any]:
    """A Step Generator with models of ids model, clip, vae."""
    models = {"model": "@model", "clip": "@clip", "vae": "@vae"}
    return node(
        "InterleaveStepGenerator", **{**models, "width": size[0], "height": size[1], **SAMPLING, **inputs}
    )


def critic_loop(**inputs: Any) -> dict[str, Any]:
    """A Critic Loop of the plan and generator of ids plan and generator."""
    return node(
        "InterleaveCriticLoop", **{"plan": "@plan", "generator": "@generator", **LOOP_INPUTS, **inputs}
    )


def shown(source: str, slot: int = 0) -> dict[str, Any]:
    """A preview of any output."""
    return node("PreviewAny", source=[source, slot])


def story(
    request: str,
    prompts: list[str],
    size: tuple[int, int] = (64, 64),
    image: str | None = None,
    critic: list[Any] | dict[str, Any] | None = None,
    generator: dict[str, Any] | None = None,
    **inputs: Any,
) -> Graph:
    """Return a graph that generates a given plan with the pack's nodes.

    Results: SaveImage "out", PreviewAny "report", Storyboard "board".

    Args:
        request: The request; it belongs to one test, since it names the run folder.
        prompts: One for each step.
        size: Width and height of the images.
        image: Input image of the story.
        critic: Replies of a scripted critic, or another agent's node.
        generator: Generator without a model of its own; `None` is a Step Generator with FLUX.2 klein.
        inputs: Further inputs of the loop and of the Step Generator.
    """
    ofloop = {name: inputs.pop(name) for name in LOOP_INPUTS.keys() | MORE_LOOP_INPUTS if name in inputs}
    graph = ({} if generator else loaders()) | {
        "plan": node("InterleaveTestPlan", request=request, prompts="\n".join(prompts)),
        "generator": generator or step_generator(size, **inputs),
        "loop": critic_loop(**ofloop),
        "out": node("SaveImage", images="@loop", filename_prefix="ours"),
        "report": shown("loop", 3),
        "board": storyboard("loop", 2, cell=96),
    }
    if image is not None:
        graph["source"] = node("LoadImage", image=image)
        graph = changed(graph, "plan", images="@source")
    if critic is not None:
        graph["critic"] = critic if isinstance(critic, dict) else scripted(critic, request)
        graph = changed(graph, "loop", critic="@critic")
    return graph


def storyboard(source: str, slot: int, cell: int, show: str = "chosen") -> dict[str, Any]:
    """A Storyboard of a trajectory."""
    return node(
        "InterleaveStoryboard", trajectory=[source, slot], show=show, columns=0, cell=cell, captions=True
    )


def by_hand(graph: Graph, edits: str, **inputs: Any) -> Graph:
    """The story with this text of an Edit Plan over its plan."""
    edit = node("InterleaveEditPlan", plan="@plan", edits=edits, **inputs)
    return changed(graph | {"edit": edit}, "loop", plan="@edit")


def written(request: str, edits: str, **loop: Any) -> Graph:
    """Return a story of the tiny world that is written in Edit Plan, without a planner."""
    return {
        "edit": node("InterleaveEditPlan", edits=edits, request=request),
        "generator": TINY_WORLD,
        "loop": critic_loop(plan="@edit", **loop),
        "text": shown("edit", 1),
        "report": shown("loop", 3),
    }


def planned(*replies: Any, request: str = "a boat", seconds: float = 0.0, **inputs: Any) -> Graph:
    """Return a Planner with these replies; its outputs are previewed."""
    return {
        "agent": node("InterleaveTestAgent", replies=json.dumps(replies), seconds_per_word=seconds),
        "planner": node("InterleavePlanner", agent="@agent", request=request, **inputs),
        "planned": shown("planner", 1),
        "thought": shown("planner", 2),
    }


def edited(edits: str, plan: Graph | None = None, **inputs: Any) -> Graph:
    """Return an Edit Plan with this text, its text previewed."""
    link = {"plan": ["planner", 0]} if plan else {}
    return (plan or {}) | {
        "edit": node("InterleaveEditPlan", edits=edits, **link, **inputs),
        "text": shown("edit", 1),
    }


def with_cast(graph: Graph, photo: str, traits: str = TRAITS) -> Graph:
    """Return a graph with Edit Plan (`edit`) and a cast: a character with a photo, and a prop."""
    mia = {"name": "Mia", "kind": "character", "traits": traits, "images.image0": ["photo", 0]}
    members = {
        "photo": node("LoadImage", image=photo),
        "mia": node("InterleaveCast", **mia),
        "lantern": node("InterleaveCast", name="lantern", kind="prop", traits="brass", cast="@mia"),
    }
    return changed(graph | members, "edit", cast="@lantern")


def of_file(name: str, kind: str, **inputs: Any) -> Graph:
    """A story of a file, loaded and handed to one more node."""
    return {
        "load": node("InterleaveLoadTrajectory", story=name),
        "report": shown("load", 1),
        "out": node(kind, trajectory="@load", **inputs),
    }


# Replies


def scripted(replies: list[Any], request: str = "", **inputs: Any) -> dict[str, Any]:
    """An agent with these replies. It counts them, so the first one is given the words of its request."""
    own = [dict(one) if isinstance(one, dict) else one for one in replies]
    if request and own and isinstance(own[0], dict):
        own[0]["text"] = own[0]["text"].replace("looked", request)
    return node("InterleaveTestAgent", replies=json.dumps(own), **inputs)


def verdict(success: bool, refined: str = "", probability: float | None = None) -> dict[str, Any]:
    """A critic's reply."""
    answer = json.dumps({"previous_step_success": success, "refine_prompt": refined})
    text = f"<think>looked</think><answer>{answer}</answer>"
    return {"text": text, "tokens": 9, "probability": probability}


def verdicts(accepted_at: int | None, attempts: int = 9) -> list[dict[str, Any]]:
    """Return replies that reject every attempt with a better prompt, and accept the given one (1-based)."""
    return [
        verdict(number == accepted_at, f"better {number}", 0.9 if number == accepted_at else 0.1 * number)
        for number in range(1, attempts + 1)
    ]


def accepted(count: int) -> list[dict[str, Any]]:
    """Return verdicts that accept."""
    return [verdict(True, "", 0.9)] * count


def reply(*prompts: str, thought: str = "easy") -> str:
    """A planner's reply with these prompts."""
    steps = [
        {
            "step_number": number,
            "step_name": f"Step {number}",
            "prompt": prompt,
            "auxiliary_text": f"Text {number}",
        }
        for number, prompt in enumerate(prompts, 1)
    ]
    return f"<think>{thought}</think><answer>{json.dumps({'execution_plan': steps})}</answer>"


HAT = "The fox must wear a hat."


def finding(*steps: int) -> dict[str, Any]:
    """Return a reply of the story check; without steps every image fits."""
    found = [{"step_number": number, "kind": "identity", "problem": HAT} for number in steps]
    answer = json.dumps({"findings": found})
    return {"text": f"<think>compared</think><answer>{answer}</answer>", "tokens": 9}


def checked(request: str, replies: list[Any], most: int = 1, size: tuple[int, int] = (64, 64)) -> Graph:
    """Return a story of three steps; the critic has these replies, those of the story check among them."""
    prompts = ["a fox", "the fox runs", "the fox sleeps"]
    return story(request, prompts, size, critic=replies, max_attempts=2, check_story=most)
