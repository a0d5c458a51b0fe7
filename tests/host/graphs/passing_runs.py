"""Graphs of runs that fail for a while, around nodes that note when they run; "after" uses their images."""

from __future__ import annotations

import json
from typing import Any

from .attempt_pairs import pair
from .klein import Graph, node
from .replies import verdict

STEPS = ("a house", "a tree", "a tree at night")


def loop(
    name: str,
    failures: int = 0,
    replies: list[Any] | None = None,
    away: int = 0,
    seconds: float = 0.0,
    **more: Any,
) -> Graph:
    """Return a Critic Loop of three steps whose second and third fail `failures` times.

    With `replies`, a critic fails `away` times.
    """
    settings = {"max_attempts": 1, "accept_at": 0.0, "keep": "best", "source": "previous", "seed": 0}
    graph = {
        "plan": node("InterleaveTestPlan", request=name, prompts="\n".join(STEPS)),
        "generator": node(
            "InterleaveTestPassingGenerator", name=name, word="tree", failures=failures, seconds=seconds
        ),
        "loop": node(
            "InterleaveCriticLoop",
            plan="@plan",
            generator="@generator",
            **{**settings, "on_failure": "keep", **more},
        ),
        "after": node("InterleaveTestTint", image="@loop", strength=0.5),
        "out": node("PreviewImage", images="@after"),
        "board": node(
            "InterleaveStoryboard", trajectory=["loop", 2], show="chosen", columns=0, cell=96, captions=True
        ),
    }
    if replies is not None:
        graph["critic"] = passing_critic(name, replies, away)
        graph["loop"]["inputs"]["critic"] = ["critic", 0]
    return graph


def passing_critic(name: str, replies: list[Any], away: int) -> dict[str, Any]:
    """A critic whose server is away for the first `away` questions."""
    return node(
        "InterleaveTestPassingAgent", name=f"{name} critic", replies=json.dumps(replies), failures=away
    )


def overflowing(name: str, failures: int, **more: Any) -> Graph:
    """Return an Attempt End whose first `failures` images are not finite; then the critic accepts."""
    graph = pair(name, 1, **more)
    tint = node("InterleaveTestPassingOverflow", image="@paint", strength=0.5, name=name, failures=failures)
    return {**graph, "tint": tint}


def attempts(name: str, away: int) -> Graph:
    """Two attempts of an Attempt End; the first is not judged while the critic is away."""
    graph = pair(name, None, max_attempts=2)
    refused = [verdict(False, "", 0.2)] * 2  # without a better prompt: what was tried since stays as it is
    return {
        **graph,
        "agent": passing_critic(name, refused, away),
        "after": node("InterleaveTestTint", image="@close", strength=0.25),
        "out": node("PreviewImage", images="@after"),
    }
