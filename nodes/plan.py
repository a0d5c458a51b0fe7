"""Nodes that make plans."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ..backend.chat.protocol import ChatModel
from ..backend.types import Request
from . import host
from .images import to_pictures
from .plan_text import plan_text
from .sockets import CATEGORY, AgentSocket, PlannedRequest, PlanSocket
from .surroundings import needing

SHOWN = 200
"""Characters of the agent's words that the node shows while it plans."""


class Planner(io.ComfyNode):
    """Writes all steps of a story before anything is drawn."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleavePlanner",
            display_name="Planner",
            category=CATEGORY,
            description="Turns a request into a plan: every step with its prompt and its text.",
            search_aliases=["plan", "story", "interleave", "prompt writer", "steps"],
            inputs=[
                AgentSocket.Input("agent", tooltip="The agent that plans, from Load Agent."),
                io.String.Input(
                    "request",
                    multiline=True,
                    default="",
                    tooltip="What is to be shown and told, in your own words.",
                ),
                io.Image.Input(
                    "images",
                    optional=True,
                    tooltip="Images that the request speaks of; the story continues from the last one.",
                ),
            ],
            outputs=[
                PlanSocket.Output("PLAN", tooltip="The request with its plan, for the Critic Loop."),
                io.String.Output("plan_text", display_name="plan as text", tooltip="The plan, to read."),
                io.String.Output("reasoning", tooltip="What the agent thought while planning."),
            ],
        )

    @classmethod
    def execute(cls, agent: ChatModel, request: str, images: Any = None) -> io.NodeOutput:
        with needing("json-repair"):
            from ..backend.agents import Planner as PlanningAgent

        progress = host.NodeProgress()
        asked = Request(text=request, images=() if images is None else to_pictures(images))
        words: list[str] = []

        def follow(text: str) -> None:
            words.append(text)
            progress.say(f"planning: {''.join(words)[-SHOWN:]}")

        with host.host_interrupts():
            plan = PlanningAgent(agent).plan(asked, follow)
        progress.say(f"{len(plan.steps)} steps")
        return io.NodeOutput(PlannedRequest(request=asked, plan=plan), plan_text(plan), plan.reasoning)
