"""A plan as text: the outline that Edit Plan reads."""

from __future__ import annotations

from ...backend.plan_editor.edited_plan import EditedPlan, EditedStep
from ...backend.plan_editor.outline import write_outline
from ...backend.types import Plan, Step


def plan_text(plan: Plan) -> str:
    """Return the outline of a plan: style and cast, then number, name, prompt and text of every step."""
    return write_outline(
        EditedPlan(
            steps=tuple(EditedStep(step=step) for step in plan.steps), style=plan.style, cast=plan.cast
        )
    )


def step_text(step: Step) -> str:
    """Return the outline of one step."""
    return write_outline(EditedPlan(steps=(EditedStep(step=step),)))
