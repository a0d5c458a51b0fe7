"""The node that has an agent plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from comfy_api.latest import io

from ...backend.agents.plan_constraints import CaptionStyle, PlanConstraints, plan_as_wished
from ...backend.chat.protocol import ChatModel
from ...backend.errors import SettingsError
from ...backend.types import MAX_STEPS, Plan, Request
from .. import host
from ..agents.reply_inputs import settings_of
from ..inputs.request import asked_request, images_input
from ..inputs.sockets import CATEGORY, AgentSocket, PlannedRequest, PlanSocket
from ..inputs.validation import checked
from .outline_text import plan_text

SHOWN = 200
"""Characters of the agent's text that the node shows while it plans."""
FIELDS = PlanConstraints.model_fields


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
                    tooltip=(
                        "What is to be shown and told, in your own words. <image> marks where an image "
                        "is meant."
                    ),
                ),
                io.Int.Input(
                    "step_count",
                    default=0,
                    min=0,
                    max=MAX_STEPS,
                    optional=True,
                    tooltip=FIELDS["step_count"].description,
                ),
                io.Combo.Input(
                    "captions",
                    options=list(get_args(CaptionStyle)),
                    default="as asked",
                    optional=True,
                    tooltip=FIELDS["captions"].description,
                ),
                images_input(
                    "Images that the request speaks of, in order; the story goes on from the last one."
                ),
            ],
            outputs=[
                PlanSocket.Output(
                    "PLAN", tooltip="The request with its plan, for Edit Plan or the Critic Loop."
                ),
                io.String.Output(
                    "plan_text",
                    display_name="plan as text",
                    tooltip="The plan as an outline, to read or to put into Edit Plan.",
                ),
                io.String.Output("reasoning", tooltip="What the agent thought while planning."),
            ],
        )

    @classmethod
    def execute(
        cls,
        agent: ChatModel,
        request: str,
        step_count: int = 0,
        captions: CaptionStyle = "as asked",
        images: dict[str, Any] | None = None,
    ) -> io.NodeOutput:
        asked = asked_request(request, images)
        if not asked.text.strip():
            raise SettingsError("The request is empty.", "Write what is to be shown and told.")
        progress = host.NodeProgress()
        constraints = checked(PlanConstraints, "Planner", step_count=step_count, captions=captions)
        plan = planned(agent, asked, constraints, following(progress.say))
        progress.say(f"{len(plan.steps)} steps")
        return io.NodeOutput(PlannedRequest(request=asked, plan=plan), plan_text(plan), plan.reasoning)


def planned(
    agent: ChatModel, asked: Request, constraints: PlanConstraints, say: Callable[[str], None]
) -> Plan:
    """The plan that the agent writes; `say` gets its tokens. Raises AnswerError, ChatError, and Cancelled if
    the user stops it."""
    from ...backend.agents.planner import Planner as PlanningAgent

    with host.host_interrupts():
        return plan_as_wished(PlanningAgent(agent, settings=settings_of(agent)), asked, constraints, say)


def following(say: Callable[[str], None]) -> Callable[[str], None]:
    """Shows the end of what an agent is writing."""
    shown = ""

    def follow(text: str) -> None:
        nonlocal shown
        shown = f"{shown}{text}"[-SHOWN:]
        say(f"planning: {shown}")

    return follow
