"""Graphs of stories that pause for the user, and how their steps ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .attempt_pairs import pair, with_body
from .klein import Graph, node, story
from .replies import verdict

SIZE = (64, 64)


def paused(request: str, pause: str, *verdicts: bool) -> Graph:
    """Return a story of two steps that pauses; without verdicts every image is accepted."""
    replies = [verdict(one, "", 0.9 if one else 0.2) for one in verdicts or [True] * 8]
    replies[0]["text"] = replies[0]["text"].replace("looked", request)
    graph = story(request, ["a house", "a tree"], SIZE, critic=json.dumps(replies), max_attempts=2)
    graph["loop"]["inputs"]["pause"] = pause
    return graph


def paused_pair(request: str, pause: str, *verdicts: bool, **settings: Any) -> Graph:
    """Return Attempt Start and Attempt End around the two steps of a plan, which pause."""
    replies = [verdict(one, "", 0.9 if one else 0.2) for one in verdicts or [True] * 8]
    replies[0]["text"] = replies[0]["text"].replace("looked", request)
    graph = pair("", None, 2, replies=replies, plan=["plan", 0], **settings)
    plan = node("InterleaveTestPlan", request=request, prompts="a house\na tree")
    return with_body({**graph, "plan": plan}, "close", pause=pause)


def reasons(folder: Path) -> list[str]:
    results = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))["results"]
    return [one["stop_reason"] for one in results]
