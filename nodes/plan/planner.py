"""Node that plans a story with an agent.

It has its own seed and temperature, which win over the agent's, since the same agent may also be the critic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, get_args

from comfy_api.latest import io

from ...backend.core.errors import SettingsError
from ...backend.core.seams.chat_model import ChatModel
from ...backend.core.types import MAX_STEPS
from ...backend.story.agents.plan_constraints import (
    CaptionStyle,
    ConstrainedPlanner,
    PlanConstraints,
    constrained_plan,
)
from ...backend.story.agents.plan_lint import remaining
from ...backend.story.journal.run_files import PlanParts
from ...backend.story.journal.store import PlanKey
from ...backend.story.outcomes import counted
from .. import host
from ..agents.reply_inputs import settings_of
from ..inputs.run_folder import planning_folder
from ..inputs.sockets import (
    AGENT,
    AgentSocket,
    PlannedRequest,
    PlanSocket,
    asked_request,
    check_connected,
    images_input,
    node_schema,
)
from ..inputs.validation import Options, checked, fault_of, in_range
from .edit_plan import plan_text

CAPTIONS = Options(get_args(CaptionStyle), "as asked")
SHOWN = 200
"""Maximum number of characters of the agent's text that the node shows while it plans."""
WARNING = "interleave_plan_warning"
KNOWN = "The plan of an earlier run is used."
LOG = logging.getLogger(__name__)
MAX_FINDINGS = 5
"""Maximum number of findings in the notice. Edit Plan shows all."""


class PlannerNode(io.ComfyNode):
    """Plans all steps of a story before any image is generated."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleavePlanner",
            shown=("request", "step_count", "style"),
            inputs=[
                AgentSocket.Input("agent"),
                io.String.Input("request", multiline=True, default=""),
                io.Int.Input("step_count", default=0, min=0, max=MAX_STEPS, optional=True),
                io.Combo.Input("captions", options=CAPTIONS, default="as requested", optional=True),
                images_input(),
                io.Int.Input(
                    "seed",
                    default=0,
                    min=0,
                    max=2**48,
                    control_after_generate=io.ControlAfterGenerate.fixed,
                    optional=True,
                ),
                io.Float.Input("temperature", default=0.0, min=0.0, max=2.0, step=0.05, optional=True),
                io.String.Input("style", multiline=True, default="", optional=True),
                io.Boolean.Input("exact_count", default=False, optional=True),
                io.Boolean.Input("repair_plan", default=False, optional=True),
            ],
            outputs=[
                PlanSocket.Output("PLAN"),
                io.String.Output("plan_text", display_name="plan as text"),
                io.String.Output("reasoning"),
            ],
        )

    @classmethod
    def validate_inputs(cls, request: str | None = None, images: Any = None) -> bool | str:
        """Check the request before anything runs."""
        # The host passes growing inputs even if the method has no parameter for them.
        return request is None or fault_of(lambda: check_request(request), request=request)

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
        """Plan the story."""
        check_connected("Planner", AGENT, agent=agent)
        check_request(request)
        asked = asked_request(request, images)
        in_range("Planner", 0, 2**48, seed=seed)
        in_range("Planner", 0.0, 2.0, temperature=temperature)
        from ...backend.story.agents.planner import Planner as PlanningAgent

        progress = host.NodeProgress()
        constraints = checked(PlanConstraints, "Planner", **options)
        settings = settings_of(agent).seeded(seed, temperature)
        heard = PlanProgress(progress.say)
        planner = PlanningAgent(agent, settings=settings, on_part=heard.begin_part)
        parts = PlanParts(planning_folder(host.output_folder(), asked))
        key = PlanKey.of(ConstrainedPlanner(planner, constraints).identity, asked)
        known = plan = parts.plan(key)
        if plan is None:
            with host.host_interrupts():
                plan = constrained_plan(planner, asked, constraints, heard, parts)
            parts.complete(key, plan)
        else:
            LOG.info("Planner: %s", KNOWN)
        progress.say(
            f"{counted(len(plan.steps), 'step')}. {KNOWN if known else plan.warning}".removesuffix(". ")
        )
        warnings = [line for line in (KNOWN if known else "", plan.warning) if line]
        found = remaining(plan, asked, constraints.step_count)
        warnings += [one.sentence for one in found[:MAX_FINDINGS]]
        warnings += [f"More findings: {len(found) - MAX_FINDINGS}."] if len(found) > MAX_FINDINGS else []
        shown: dict[str, Any] = {WARNING: warnings} if warnings else {}
        # The browser offers a new plan (web/plan_warning.js).
        shown |= {"interleave_plan_known": (True,)} if known else {}
        written = PlannedRequest(
            request=asked, plan=plan, planner=planner.identity, prompt_set=planner.prompt_set_digest
        )
        return io.NodeOutput(written, plan_text(plan), plan.reasoning, ui=shown or None)


def check_request(request: str) -> None:
    """Check the text of a request.

    Raises:
        SettingsError: It is empty, too long or not valid text.
    """
    if not request.strip():
        raise SettingsError("Planner: the request is empty.", "Describe the story.")
    asked_request(request, None)


class PlanProgress:
    """Shows the end of the text that an agent generates, and the current part of a long plan."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._head = "planning"
        self._shown = ""

    def begin_part(self, part: str) -> None:
        """Note the part that is generated now, such as "outline" or "steps 1-10 of 40"."""
        self._head, self._shown = f"planning {part}", ""
        self("...")

    def __call__(self, text: str) -> None:
        """Show generated text."""
        self._shown = f"{self._shown}{text}"[-SHOWN:]
        self._say(f"{self._head}: {self._shown}")
