"""The node that has an agent plan.

Decision: seed and temperature stand here too, and win over the agent's, since another plan is asked for here
and an agent may be critic as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from comfy_api.latest import io

from ...backend.agents.plan_constraints import CaptionStyle, PlanConstraints, PlanWriter, constrained_plan
from ...backend.chat.protocol import ChatModel
from ...backend.errors import SettingsError
from ...backend.journal.plan_parts import PlanParts
from ...backend.types import MAX_STEPS, Plan, Request
from .. import host
from ..agents.reply_inputs import settings_of
from ..inputs.connected import AGENT, check_connected
from ..inputs.request import asked_request, images_input
from ..inputs.run_folder import planning_folder
from ..inputs.sockets import CATEGORY, AgentSocket, PlannedRequest, PlanSocket
from ..inputs.validation import checked, fault_of, in_range
from .outline_text import plan_text

SHOWN = 200
"""Characters of the agent's text that the node shows while it plans."""
WARNING = "interleave_plan_warning"
FIELDS = PlanConstraints.model_fields


class PlannerNode(io.ComfyNode):
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
                io.Int.Input(
                    "seed",
                    default=0,
                    min=0,
                    max=2**48,
                    control_after_generate=io.ControlAfterGenerate.fixed,
                    optional=True,
                    tooltip="Another number, another plan; the same number, the same plan. 0 is the "
                    "likeliest plan, or what the agent's node says.",
                ),
                io.Float.Input(
                    "temperature",
                    default=0.0,
                    min=0.0,
                    max=2.0,
                    step=0.05,
                    optional=True,
                    advanced=True,
                    tooltip="How far plans of different seeds differ. 0 takes the agent's, or 0.7 where that "
                    "is 0 and a seed is set.",
                ),
                io.String.Input(
                    "style",
                    multiline=True,
                    default="",
                    optional=True,
                    tooltip=FIELDS["style"].description,
                ),
                io.Boolean.Input(
                    "exact_count",
                    default=False,
                    optional=True,
                    advanced=True,
                    tooltip=FIELDS["exact_count"].description,
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
    def validate_inputs(cls, request: str | None = None, images: Any = None) -> bool | str:
        # The host hands over grown inputs whether they are asked for or not.
        return request is None or fault_of(lambda: check_wish(request), request=request)

    @classmethod
    def execute(
        cls,
        agent: ChatModel,
        request: str,
        seed: int = 0,
        temperature: float = 0.0,
        images: dict[str, Any] | None = None,
        **options: Any,
    ) -> io.NodeOutput:
        check_connected("Planner", AGENT, agent=agent)
        check_wish(request)
        asked = asked_request(request, images)
        in_range("Planner", 0, 2**48, seed=seed)
        in_range("Planner", 0.0, 2.0, temperature=temperature)
        from ...backend.agents.planner import Planner as PlanningAgent

        progress = host.NodeProgress()
        constraints = checked(PlanConstraints, "Planner", **options)
        settings = settings_of(agent).seeded(seed, temperature)
        heard = PlanProgress(progress.say)
        planner = PlanningAgent(agent, settings=settings, on_part=heard.begin_part)
        parts = PlanParts(planning_folder(host.output_folder(), asked, planner.identity))
        planner.part_store = parts
        plan = planned(planner, asked, constraints, heard)
        parts.clear()
        progress.say(f"{len(plan.steps)} steps. {plan.warning}".removesuffix(". "))
        shown = {WARNING: [plan.warning]} if plan.warning else None
        written = PlannedRequest(
            request=asked, plan=plan, planner=planner.identity, prompt_set=planner.prompt_set_digest
        )
        return io.NodeOutput(written, plan_text(plan), plan.reasoning, ui=shown)


def check_wish(request: str) -> None:
    """Raise SettingsError for a request that is empty, or that no agent could be asked with."""
    if not request.strip():
        raise SettingsError("The request is empty.", "Write what is to be shown and told.")
    asked_request(request, None)


def planned(
    planner: PlanWriter, asked: Request, constraints: PlanConstraints, say: Callable[[str], None]
) -> Plan:
    """The plan that is written; `say` gets its tokens. Raises AnswerError, ChatError, and Cancelled if
    the user stops it."""
    with host.host_interrupts():
        return constrained_plan(planner, asked, constraints, say)


class PlanProgress:
    """Shows the end of what an agent is writing, and which part of a long plan that is."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._head = "planning"
        self._shown = ""

    def begin_part(self, part: str) -> None:
        """From here on this part is written: "outline", "steps 1-10 of 40"."""
        self._head, self._shown = f"planning {part}", ""
        self("...")

    def __call__(self, text: str) -> None:
        self._shown = f"{self._shown}{text}"[-SHOWN:]
        self._say(f"{self._head}: {self._shown}")
