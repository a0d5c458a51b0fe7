"""Graphs of stories that the critic checks as a whole."""

from __future__ import annotations

import json
from typing import Any

from .klein import Graph, story
from .replies import verdict

SIZE = (64, 64)
HAT = "The fox must wear a hat."


def finding(*steps: int) -> dict[str, Any]:
    """Return a reply of the story check; without steps every image fits."""
    found = [{"step_number": number, "kind": "identity", "problem": HAT} for number in steps]
    answer = json.dumps({"findings": found})
    return {"text": f"<think>compared</think><answer>{answer}</answer>", "tokens": 9}


def checked(request: str, replies: list[Any], most: int = 1, size: tuple[int, int] = SIZE) -> Graph:
    """Return a story of three steps; the critic has these replies, those of the story check among them."""
    # The scripted critic counts its replies, those of this request alone.
    first = dict(replies[0], text=replies[0]["text"].replace("looked", request))
    graph = story(
        request,
        ["a fox", "the fox runs", "the fox sleeps"],
        size,
        critic=json.dumps([first, *replies[1:]]),
        max_attempts=2,
    )
    graph["loop"]["inputs"]["check_story"] = most
    return graph


def accepted(count: int) -> list[dict[str, Any]]:
    """Return verdicts that accept."""
    return [verdict(True, "", 0.9)] * count
