"""Hand edits of a plan, and what becomes of them when the planner writes another one.

Decision: the edits say which plan they were made from. As long as that plan comes in, the edited text is the
plan. If another one comes, a step that a person locked, changed or added keeps its words and its number,
every other step is the new plan's, and a note says which is which; the edits themselves are never rewritten,
so no work of a hand is lost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ..answers.unfit import reason_of
from ..types import MAX_STEPS, Plan, Step, Value
from .edited_plan import EditedPlan, EditedStep, PlanTextError, checked_text
from .json_form import read_json
from .outline import read_outline


class MergedPlan(Value):
    """The plan after the edits. `note` says in a sentence what it is made of; `edited` is the same plan,
    ready to be edited further; `is_stale` if the edits were made from another plan than the one that came
    in."""

    plan: Plan
    edited: EditedPlan
    note: str
    is_stale: bool = False


def read_edits(text: str) -> EditedPlan | None:
    """Edits written as JSON (they begin with a bracket) or as an outline, None for none; raises
    PlanTextError."""
    text = checked_text(text)
    if not text.strip():
        return None
    return read_json(text) if text.lstrip()[0] in "{[" else read_outline(text)


def step_digest(step: Step) -> str:
    """8 hex digits over the words and settings of a step; its number is no part of it."""
    words: list[Any] = [
        step.name,
        *(value or "" for value in (step.instruction, step.prompt, step.auxiliary_text)),
        *([settings] if (settings := step.settings.as_written) else []),
    ]
    return hashlib.blake2b(json.dumps(words).encode(), digest_size=4).hexdigest()


def editable(plan: Plan) -> EditedPlan:
    """A plan as edits that change nothing yet."""
    return EditedPlan(
        steps=tuple(EditedStep(step=step) for step in plan.steps),
        made_from=tuple(step_digest(step) for step in plan.steps),
    )


def apply_edits(edits: EditedPlan | None, planned: Plan | None) -> MergedPlan:
    """The plan that results from edits and the planner's plan, either of which may be missing but not both;
    raises PlanTextError if the result is no plan."""
    if edits is None:
        if planned is None:
            raise PlanTextError(
                "There is no plan.", "Connect a Planner, or write steps like this: 1. A red house in a meadow"
            )
        return MergedPlan(plan=planned, edited=editable(planned), note="The planner's plan, unchanged.")
    style = edits.style or (planned.style if planned else "")
    rest = {"reasoning": planned.reasoning if planned else "", "style": style}
    base = editable(planned) if planned else None
    if base is None or not edits.made_from or edits.made_from == base.made_from:
        plan = _plan(edits.steps, rest)
        return MergedPlan(plan=plan, edited=edits, note=_note_of_edits(edits, base))
    kept = [one for one in edits.steps if one.locked or step_digest(one.step) not in edits.made_from]
    by_number = {one.step.number: one for one in (*base.steps, *kept)}
    steps = tuple(by_number[number] for number in sorted(by_number))
    merged = EditedPlan(steps=steps, made_from=base.made_from, style=edits.style)
    return MergedPlan(
        plan=_plan(steps, rest), edited=merged, note=_note_of_merge(edits, kept, steps), is_stale=True
    )


def _plan(steps: Sequence[EditedStep], rest: Mapping[str, str]) -> Plan:
    if len(steps) > MAX_STEPS:
        raise PlanTextError(
            (
                f"The planner's new plan and your steps are {len(steps)} steps together; at most {MAX_STEPS} "
                "are drawn."
            ),
            "Delete some of yours.",
        )
    try:
        return Plan(steps=tuple(one.step for one in steps), **rest)
    except ValidationError as error:
        raise PlanTextError(f"This is no plan: {reason_of(error.errors(include_url=False)[0])}.") from error


def _note_of_edits(edits: EditedPlan, base: EditedPlan | None) -> str:
    count = f"{len(edits.steps)} step{'s' if len(edits.steps) > 1 else ''}"
    if base is None:
        return f"{count}, written by hand."
    if not edits.made_from:
        return f"{count}, all as in your text; the planner's plan is not used."
    changed = [one for one in edits.steps if step_digest(one.step) not in edits.made_from]
    if not changed and [step_digest(one.step) for one in edits.steps] == list(base.made_from):
        return f"{count}, the planner's."
    return f"{count}; {_these(changed)} changed by hand." if changed else f"{count}, put in order by hand."


def _note_of_merge(edits: EditedPlan, kept: Sequence[EditedStep], steps: Sequence[EditedStep]) -> str:
    new = [one for one in steps if one not in kept and step_digest(one.step) not in edits.made_from]
    yours = (
        f"{_these(kept)} as you wrote or locked {'it' if len(kept) == 1 else 'them'}"
        if kept
        else "nothing kept"
    )
    note = f"The planner has written another plan: {yours}, {_these(new) + ' new' if new else 'none new'}."
    # A kept step answers for its own number; what else differs from the old plan was deleted, moved or
    # renumbered.
    untouched = [step_digest(one.step) for one in edits.steps if one not in kept]
    places = {digest: place for place, digest in enumerate(edits.made_from)}
    moved = [places[digest] for digest in untouched]
    if moved != sorted(moved) or len(edits.steps) < len(edits.made_from):
        note += " Steps that you had deleted or moved are as the planner has them now."
    return note


def _these(steps: Sequence[EditedStep]) -> str:
    numbers = [str(one.step.number) for one in steps]
    if len(numbers) == 1:
        return f"step {numbers[0]}"
    return f"steps {', '.join(numbers[:-1])} and {numbers[-1]}"
