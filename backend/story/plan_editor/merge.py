"""Merges the user's edits of a plan with a new plan of the planner.

The edits contain the digests of the plan that they were made from. As long as that plan comes in, the edited
text is the plan. If another plan comes in, a step that the user locked, changed or added keeps its texts and
its number. Every other step comes from the new plan, and a note tells which is which. The edits themselves
are never rewritten, so the user's work is not lost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ...core.errors import first_fault
from ...core.types import MAX_STEPS, Plan, Step, Value
from ...core.types.cast import MAX_CAST, CastMember, check_cast, joined_cast
from .edited_plan import EditedPlan, EditedStep, PlanTextError, checked_text
from .json_form import read_json
from .outline import read_outline


class MergedPlan(Value):
    """The plan after the edits.

    Attributes:
        plan: The plan.
        edited: The same plan, ready to be edited further.
        note: Sentence that describes the origin of the steps.
        is_stale: Whether the edits were made from another plan than the incoming one.
    """

    plan: Plan
    edited: EditedPlan
    note: str
    is_stale: bool = False


def read_edits(text: str) -> EditedPlan | None:
    """Return edits written as JSON (they start with a bracket) or as an outline; `None` for an empty text.

    Raises:
        PlanTextError: The text is not a valid plan.
    """
    text = checked_text(text)
    if not text.strip():
        return None
    return read_json(text) if text.lstrip()[0] in "{[" else read_outline(text)


def step_digest(step: Step) -> str:
    """Return 8 hex digits over the texts, settings, cast and checklist of a step, without its number."""
    words: list[Any] = [
        step.name,
        *(value or "" for value in (step.instruction, step.prompt, step.auxiliary_text)),
        *([settings] if (settings := step.settings.as_written) else []),
        *([{"cast": step.cast, "facts": step.facts}] if step.cast is not None or step.facts else []),
        *([{"checklist": [one.model_dump() for one in step.checklist]}] if step.checklist else []),
    ]
    return hashlib.blake2b(json.dumps(words).encode(), digest_size=4).hexdigest()


def editable(plan: Plan) -> EditedPlan:
    """Return a plan as edits that do not change anything yet."""
    return EditedPlan(
        steps=tuple(EditedStep(step=step) for step in plan.steps),
        made_from=tuple(step_digest(step) for step in plan.steps),
    )


def apply_edits(
    edits: EditedPlan | None, planned: Plan | None, connected: Sequence[CastMember] = ()
) -> MergedPlan:
    """Return the plan that results from the edits and the planner's plan. One of them may be `None`.

    Args:
        edits: The user's text.
        planned: The planner's plan.
        connected: Cast that the user keeps outside of the text. It replaces that of the planner's plan, and
            members of the text are added to it.

    Raises:
        PlanTextError: Both are `None`, or the result is not a valid plan.
    """
    if edits is None:
        if planned is None:
            raise PlanTextError(
                "The plan is empty.",
                "Connect a Planner, or write steps like this: 1. A red house in a meadow",
            )
        base = editable(planned)
        plan = planned.resolved
        if connected:
            plan = _plan(base.steps, {**dict(planned), "cast": tuple(connected)})
        return MergedPlan(plan=plan, edited=base, note="The planner's plan, unchanged.")
    style = edits.style or (planned.style if planned else "")
    cast = _cast(edits.cast, connected) or (planned.cast if planned else ())
    rest = {"reasoning": planned.reasoning if planned else "", "style": style, "cast": cast}
    base = editable(planned) if planned else None
    if base is None or not edits.made_from or edits.made_from == base.made_from:
        plan = _plan(edits.steps, rest)
        return MergedPlan(plan=plan, edited=edits, note=_note_of_edits(edits, base))
    kept = [one for one in edits.steps if one.locked or step_digest(one.step) not in edits.made_from]
    by_number = {one.step.number: one for one in (*base.steps, *kept)}
    steps = tuple(by_number[number] for number in sorted(by_number))
    merged = EditedPlan(steps=steps, made_from=base.made_from, style=edits.style, cast=edits.cast)
    return MergedPlan(
        plan=_plan(steps, rest), edited=merged, note=_note_of_merge(edits, kept, steps), is_stale=True
    )


def _cast(written: Sequence[CastMember], connected: Sequence[CastMember]) -> tuple[CastMember, ...]:
    try:
        check_cast(written, ())
    except ValueError as error:
        raise PlanTextError(f"The cast of the text: {error}.", "Give each member its own name.") from error
    cast = joined_cast(connected, written)
    if len(cast) > MAX_CAST:
        raise PlanTextError(
            f"The connected cast and that of the text have {len(cast)} members together; the maximum is "
            f"{MAX_CAST}.",
            "Delete some of them.",
        )
    return cast


def _plan(steps: Sequence[EditedStep], rest: Mapping[str, Any]) -> Plan:
    if len(steps) > MAX_STEPS:
        raise PlanTextError(
            f"The planner's new plan and your steps have {len(steps)} steps together; the maximum is "
            f"{MAX_STEPS}.",
            "Delete some of your steps.",
        )
    try:
        return Plan(**{**rest, "steps": tuple(one.step for one in steps)}).resolved
    except ValidationError as error:
        raise PlanTextError(
            f"The steps are not a valid plan: {first_fault(error).reason}.", "Correct them."
        ) from error


def _note_of_edits(edits: EditedPlan, base: EditedPlan | None) -> str:
    count = f"{len(edits.steps)} step{'s' if len(edits.steps) > 1 else ''}"
    if base is None:
        return f"{count}, written by hand."
    if not edits.made_from:
        return f"{count}, all from your text; the planner's plan is not used."
    changed = [one for one in edits.steps if step_digest(one.step) not in edits.made_from]
    if not changed and [step_digest(one.step) for one in edits.steps] == list(base.made_from):
        return f"{count}, from the planner."
    return f"{count}; {_these(changed)} changed by hand." if changed else f"{count}, reordered by hand."


def _note_of_merge(edits: EditedPlan, kept: Sequence[EditedStep], steps: Sequence[EditedStep]) -> str:
    new = [one for one in steps if one not in kept and step_digest(one.step) not in edits.made_from]
    yours = (
        f"{_these(kept)} as you wrote or locked {'it' if len(kept) == 1 else 'them'}"
        if kept
        else "nothing kept"
    )
    note = f"The planner wrote a new plan: {yours}, {_these(new) + ' new' if new else 'none new'}."
    # A kept step accounts for its own number. Other differences from the old plan are deleted, moved or
    # renumbered steps.
    untouched = [step_digest(one.step) for one in edits.steps if one not in kept]
    places = {digest: place for place, digest in enumerate(edits.made_from)}
    moved = [places[digest] for digest in untouched]
    if moved != sorted(moved) or len(edits.steps) < len(edits.made_from):
        note += " Steps that you deleted or moved are as in the new plan."
    return note


def _these(steps: Sequence[EditedStep]) -> str:
    numbers = [str(one.step.number) for one in steps]
    if len(numbers) == 1:
        return f"step {numbers[0]}"
    return f"steps {', '.join(numbers[:-1])} and {numbers[-1]}"
