"""The tiny world as an exact judge of plans.

Decision: the state after every step is compared with the one that the reference plan leads to, so that
another wording of the same edit is right and a right wording of another edit is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....backend.errors import SettingsError
from ....backend.pictures import Picture
from ....backend.tinyworld.reading import read_page
from ....backend.tinyworld.scene import Scene, Start, applies
from ....backend.tinyworld.wording import read_prompt
from ....backend.types import Plan, Step
from ...reward.plans.judges import PlanScore
from ...rows.planner_rl import PlannerRlRow


class SimulatedWorld:
    """The tiny world as a judge: exact, by the states that the steps lead to."""

    identity = "tinyworld-plans-1"

    def check(self, row: PlannerRlRow) -> None:
        """A row needs a reference whose steps are of this world."""
        if not row.reference:
            raise SettingsError(f"{row.place or 'A row'} has no reference plan.", "Give --judge CHAT for it.")
        for step in row.reference:
            if step.prompt and read_prompt(step.prompt) is None:
                raise SettingsError(
                    f"{row.place or 'A row'}, reference: {step.prompt[:80]!r} is no step of the tiny world."
                )

    def keep_in(self, path: Path) -> None:
        """Nothing costs anything here."""

    def score(self, row: PlannerRlRow, plan: Plan, pictures: Sequence[Picture]) -> PlanScore:
        """Half of the match is for all states at once, half for the share of them; steps too many count as
        wrong ones. A caption must be there where the reference has one; a step of text must say its text."""
        page = read_page(pictures[0]).scene if pictures else None
        wanted, _ = _states(row.reference, page)
        found, consistent = _states(plan.steps, page)
        pairs = zip(wanted, found, row.reference, plan.steps, strict=False)
        right = sum(
            one == other and _same_words(asked, step) and (one is not None or not asked.prompt)
            for one, other, asked, step in pairs
        )
        share = right / max(len(wanted), len(found))
        exact = share == 1.0
        return PlanScore(match=(share + exact) / 2, consistency=consistent, exact=exact)


def _same_words(asked: Step, step: Step) -> bool:
    if asked.prompt is None:
        return step.prompt is None and step.auxiliary_text == asked.auxiliary_text
    return step.prompt is not None and bool(step.auxiliary_text) == bool(asked.auxiliary_text)


def _states(steps: Sequence[Step], page: Scene | None) -> tuple[list[Scene | None], float]:
    """The state after each step, None from the first prompt on that is none of this world; and the share of
    the steps with a prompt that find what they act on."""
    states: list[Scene | None] = []
    consistent, drawn, lost = 0, 0, False
    for step in steps:
        if step.prompt is not None:
            drawn += 1
            act = _act(step.prompt)
            if lost or act is None or (page is None and not isinstance(act, Start)):
                lost = True
            else:
                consistent += isinstance(act, Start) or (page is not None and applies(act, page))
                page = act.apply(page)
        states.append(None if lost else page)
    return states, consistent / drawn if drawn else 0.0


def _act(prompt: str) -> Any:
    found = read_prompt(prompt)
    return None if found is None else found[0]
