"""Nodes for tests alone: a plan without a planner, and an agent that says what it is told."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

CATEGORY = "InterleaveThinker tests"


def pack(module: str) -> ModuleType:
    """A module of the pack under test, which the host has imported under a name of its own."""
    root = next(name for name in sys.modules if name.endswith("interleave-thinker"))
    return import_module(f"{root}.{module}")


class GivenPlan:
    """A request with a plan of these prompts, one a line; a line beginning with "#" is a step of text."""

    CATEGORY = CATEGORY
    FUNCTION = "plan"
    RETURN_TYPES = ("INTERLEAVE_PLAN",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        text = ("STRING", {"multiline": True, "default": ""})
        return {"required": {"request": text, "prompts": text}, "optional": {"images": ("IMAGE",)}}

    def plan(self, request: str, prompts: str, images: Any = None) -> tuple[Any]:
        types = pack("backend.types")
        steps = [
            types.Step(number=number, auxiliary_text=line[1:].strip())
            if line.startswith("#")
            else types.Step(
                number=number, name=f"Step {number}", prompt=line, auxiliary_text=f"Text {number}"
            )
            for number, line in enumerate(prompts.splitlines(), 1)
        ]
        pictures = () if images is None else pack("nodes.images").to_pictures(images)
        return (
            pack("nodes.sockets").PlannedRequest(
                request=types.Request(text=request, images=pictures), plan=types.Plan(steps=tuple(steps))
            ),
        )


class ScriptedAgent:
    """An agent that gives the replies of a JSON list (texts, or objects with text and probability) in turn."""

    CATEGORY = CATEGORY
    FUNCTION = "agent"
    RETURN_TYPES = ("INTERLEAVE_AGENT",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"replies": ("STRING", {"multiline": True, "default": "[]"})}}

    def agent(self, replies: str) -> tuple[Any]:
        scripted = pack("backend.chat.scripted")
        chat = scripted.ScriptedChat(scripted.REPLIES.validate_json(replies))
        return (pack("nodes.managed_chat").ManagedChat(chat),)


NODE_CLASS_MAPPINGS: dict[str, type] = {
    "InterleaveTestPlan": GivenPlan,
    "InterleaveTestAgent": ScriptedAgent,
}
