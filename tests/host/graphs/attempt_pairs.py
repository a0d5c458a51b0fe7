"""Attempt Start and Attempt End around nodes that log when they run, and stories that pause or fail."""

from __future__ import annotations

import json
from typing import Any

from .stories import (
    Graph,
    changed,
    critic_loop,
    node,
    renamed,
    scripted,
    shown,
    story,
    storyboard,
    verdict,
    verdicts,
)  # fmt: skip

CACHES = ("classic", "lru", "ram", "none")
OPEN_INPUTS = ("step", "seed", "plan", "story")


def pair(
    prompt: Any,
    accepted_at: int | None = None,
    max_attempts: int = 5,
    replies: list[Any] | None = None,
    paint: dict[str, Any] | None = None,
    **inputs: Any,
) -> Graph:
    """Return checkpoint, sampler and tint between the pair "open" and "close"; "out" saves the result.

    `inputs` are those of Attempt Start and of Attempt End, `paint` those of the sampler.
    """
    ofopen = {"step": 0, "seed": 7} | {name: inputs.pop(name) for name in OPEN_INPUTS if name in inputs}
    closing = {"max_attempts": max_attempts, "accept_at": 0.0, "keep": "best", **inputs}
    drawing = {"prompt": ["open", 1], "seed": ["open", 2], "batch": 1, "seconds": 0.0, **(paint or {})}
    return {
        "agent": node("InterleaveTestAgent", replies=json.dumps(replies or verdicts(accepted_at))),
        "loader": node("InterleaveTestLoader", name="model"),
        "open": node("InterleaveTryOpen", prompt=prompt, **ofopen),
        "paint": node("InterleaveTestPaint", model="@loader", **drawing),
        "tint": node("InterleaveTestTint", image="@paint", strength=0.5),
        "close": node(
            "InterleaveTryClose", **{"image": "@tint", "opened": "@open", "critic": "@agent", **closing}
        ),
        "out": node("PreviewImage", images="@close"),
        "attempts": node("PreviewImage", images=["close", 3]),
        "text": shown("close", 1),
        "accepted": shown("close", 2),
        "final": shown("close", 4),
    }


def previewed(graph: Graph) -> Graph:
    """The graph with a preview inside its body."""
    return {**graph, "preview": node("PreviewImage", images="@tint")}


def count(answer: dict[str, Any]) -> tuple[int, int, int]:
    """Return how often the checkpoint loader, the sampler and the tint node ran."""
    words = [line.split()[0] for line in answer["ran"]]
    return words.count("load"), words.count("paint"), words.count("tint")


def judged(*verdicts: bool) -> list[dict[str, Any]]:
    """Return a critic's replies; without verdicts every image is accepted."""
    return [verdict(one, "", 0.9 if one else 0.2) for one in verdicts or [True] * 8]


def paused(request: str, pause: str, *verdicts: bool) -> Graph:
    """Return a story of two steps that pauses."""
    return story(request, ["a house", "a tree"], critic=judged(*verdicts), max_attempts=2, pause=pause)


def paused_pair(request: str, pause: str, *verdicts: bool, **inputs: Any) -> Graph:
    """Return Attempt Start and Attempt End around the two steps of a plan, which pause."""
    graph = pair("", None, 2, plan=["plan", 0], pause=pause, **inputs)
    graph["agent"] = scripted(judged(*verdicts), request)
    return graph | {"plan": node("InterleaveTestPlan", request=request, prompts="a house\na tree")}


# Runs that fail for a while; "after" uses their images.


def loop(
    name: str,
    failures: int = 0,
    replies: list[Any] | None = None,
    away: int = 0,
    seconds: float = 0.0,
    **inputs: Any,
) -> Graph:
    """Return a Critic Loop of three steps whose second and third fail `failures` times.

    With `replies`, a critic fails `away` times.
    """
    generator = {"name": name, "word": "tree", "failures": failures, "seconds": seconds}
    graph = {
        "plan": node("InterleaveTestPlan", request=name, prompts="a house\na tree\na tree at night"),
        "generator": node("InterleaveTestPassingGenerator", **generator),
        "loop": critic_loop(**inputs),
        "after": node("InterleaveTestTint", image="@loop", strength=0.5),
        "out": node("PreviewImage", images="@after"),
        "board": storyboard("loop", 2, cell=96),
    }
    if replies is not None:
        graph["critic"] = passing_critic(name, replies, away)
        graph = changed(graph, "loop", critic="@critic")
    return graph


def passing_critic(name: str, replies: list[Any], away: int) -> dict[str, Any]:
    """A critic whose server is away for the first `away` questions."""
    return node(
        "InterleaveTestPassingAgent", name=f"{name} critic", replies=json.dumps(replies), failures=away
    )


def overflowing(name: str, failures: int, **more: Any) -> Graph:
    """Return an Attempt End whose first `failures` images are not finite; then the critic accepts."""
    tint = node("InterleaveTestPassingOverflow", image="@paint", strength=0.5, name=name, failures=failures)
    return {**pair(name, 1, **more), "tint": tint}


def two_attempts(name: str, away: int) -> Graph:
    """Two attempts of an Attempt End; the first is not judged while the critic is away."""
    refused = [verdict(False, "", 0.2)] * 2  # without a better prompt: what was tried since stays as it is
    return pair(name, None, max_attempts=2) | {
        "agent": passing_critic(name, refused, away),
        "after": node("InterleaveTestTint", image="@close", strength=0.25),
        "out": node("PreviewImage", images="@after"),
    }


def next_pair(graph: Graph, **open_inputs: Any) -> Graph:
    """The graph under other ids, its Attempt Start a continuation of the pair "close"."""
    moved = renamed(graph)
    moved["open2"] = node(
        "InterleaveTryOpen", **{"prompt": "", "seed": 7, "story": ["close", 5], **open_inputs}
    )
    return moved
