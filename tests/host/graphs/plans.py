"""Graphs with a Planner and with Edit Plan, their outputs previewed."""

from __future__ import annotations

import json
from typing import Any

from .klein import Graph, node


def planned(*replies: str, request: str = "a boat", seconds: float = 0.0, **inputs: Any) -> Graph:
    return {
        "agent": node("InterleaveTestAgent", replies=json.dumps(replies), seconds_per_word=seconds),
        "planner": node("InterleavePlanner", agent="@agent", request=request, **inputs),
        "planned": node("PreviewAny", source=["planner", 1]),
        "thought": node("PreviewAny", source=["planner", 2]),
    }


def edited(edits: str, plan: Graph | None = None, **inputs: Any) -> Graph:
    link = {"plan": ["planner", 0]} if plan else {}
    return (plan or {}) | {
        "edit": node("InterleaveEditPlan", edits=edits, **link, **inputs),
        "text": node("PreviewAny", source=["edit", 1]),
    }


def text_of(outputs: dict[str, Any], name: str = "text") -> str:
    return outputs[name]["text"][0]
