"""The pack's socket types, and the value of the plan socket.

Wires carry the backend's own objects (ChatModel, Generator, Trajectory), so any node can be at either end. A
plan alone cannot be run, since its steps may refer to the images of the request. So the plan's wire carries
both.
"""

from __future__ import annotations

from comfy_api.latest import io

from ...backend.types import Plan, Request, Text, Value

CATEGORY = "InterleaveThinker"

AgentSocket = io.Custom("INTERLEAVE_AGENT")
GeneratorSocket = io.Custom("INTERLEAVE_GENERATOR")
StepOptionsSocket = io.Custom("INTERLEAVE_STEP_OPTIONS")
CastSocket = io.Custom("INTERLEAVE_CAST")
PlanSocket = io.Custom("INTERLEAVE_PLAN")
TrajectorySocket = io.Custom("INTERLEAVE_TRAJECTORY")


class PlannedRequest(Value):
    """A request and its plan.

    `planner` is the identity of the agent that wrote it, "" for the user. `prompt_set` is the digest of its
    prompt set.
    """

    request: Request
    plan: Plan
    planner: Text = ""
    prompt_set: Text = ""
