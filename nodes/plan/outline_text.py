"""A plan as a text that a person reads: the outline that Edit Plan takes back."""

from __future__ import annotations

from ...backend.plan_editor.edited_plan import EditedPlan, EditedStep
from ...backend.plan_editor.outline import write_outline
from ...backend.types import Plan, Step


def plan_text(plan: Plan) -> str:
    """The style, then number, name, prompt and text of every step."""
    return write_outline(
        EditedPlan(steps=tuple(EditedStep(step=step) for step in plan.steps), style=plan.style)
    )


def step_text(step: Step) -> str:
    """One step of `plan_text`."""
    return write_outline(EditedPlan(steps=(EditedStep(step=step),)))
