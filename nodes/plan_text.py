"""A plan as a text that a person reads: one paragraph a step."""

from __future__ import annotations

from ..backend.types import Plan, Step


def plan_text(plan: Plan) -> str:
    """Number, name, what is drawn and what is said of every step."""
    return "\n\n".join(step_text(step) for step in plan.steps)


def step_text(step: Step) -> str:
    """One step of `plan_text`."""
    lines = [f"{step.number}. {step.name or step.instruction or 'Step'}"]
    if step.instruction and step.name:
        lines.append(f"   {step.instruction}")
    if step.prompt:
        lines.append(f"   draw: {step.prompt}")
    if step.auxiliary_text:
        lines.append(f"   text: {step.auxiliary_text}")
    return "\n".join(lines)
