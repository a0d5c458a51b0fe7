"""The pack's own socket types, and the one value that exists for a socket alone.

Decision: what travels on a wire is the backend's own object, so that any node may stand at either end: a
ChatModel, a Generator, a Trajectory. A plan alone cannot be carried out, since its steps may refer to the
images of the request; hence the plan's wire carries both.
"""

from __future__ import annotations

from comfy_api.latest import io

from ...backend.types import Plan, Request, Text, Value

CATEGORY = "InterleaveThinker"

AgentSocket = io.Custom("INTERLEAVE_AGENT")
GeneratorSocket = io.Custom("INTERLEAVE_GENERATOR")
StepOptionsSocket = io.Custom("INTERLEAVE_STEP_OPTIONS")
PlanSocket = io.Custom("INTERLEAVE_PLAN")
TrajectorySocket = io.Custom("INTERLEAVE_TRAJECTORY")


class PlannedRequest(Value):
    """A request and the plan to carry it out; `planner` names the agent that wrote it, "" for a person, and
    `prompt_set` the digest of the wording that it was asked in."""

    request: Request
    plan: Plan
    planner: Text = ""
    prompt_set: Text = ""
