"""A plan as text: the outline that Edit Plan reads."""

from __future__ import annotations

from ...backend.cast import CastMember
from ...backend.plan_editor.edited_plan import EditedPlan, EditedStep
from ...backend.plan_editor.outline import write_outline
from ...backend.types import Plan, Step
from .connected_images import is_connected


def plan_text(plan: Plan) -> str:
    """Return the outline of a plan: style and cast, then number, name, prompt and text of every step."""
    return write_outline(
        EditedPlan(
            steps=tuple(EditedStep(step=step) for step in plan.steps),
            style=plan.style,
            cast=tuple(_as_text(member) for member in plan.cast),
        )
    )


def _as_text(member: CastMember) -> CastMember:
    """Return the member without connected images, which are not files that a text can name."""
    named = tuple(image for image in member.images if not is_connected(image))
    return member if named == member.images else member.model_copy(update={"images": named})


def step_text(step: Step) -> str:
    """Return the outline of one step."""
    return write_outline(EditedPlan(steps=(EditedStep(step=step),)))
