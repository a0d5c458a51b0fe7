"""The tiny world as an exact judge of plans.

Decisions. A step is right if it leaves the page that the reference's step leaves, so that another wording of
the same edit is right and a right wording of another edit is wrong. It is tried on the page that the
reference's step finds, not on what the plan made of it until then: by the plan's own pages one wrong step
would make all later ones wrong, and nothing would be learned of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ....backend.errors import SettingsError
from ....backend.pictures import Picture
from ....backend.types import Plan, Step
from ....training.data.rows.planner_rl import PlannerRlRow
from ....training.reward.plans.judges import PlanScore
from ...runtime.reading import read_image
from ...runtime.scene import Scene, StartScene, applies
from ...runtime.wording import read_prompt


class SimulatedWorld:
    """The tiny world as a judge: exact, by the pages that steps lead to."""

    identity = "tinyworld-plans-2"

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
        """Half of the match is for an exact plan, half for the share of steps that are right in the
        reference's order, of the asked ones or the planned ones, whichever are more. A caption must be there
        where the reference has one; a step of text must say its text."""
        page = read_image(pictures[0]).scene if pictures else None
        wanted, _ = _walked(row.reference, page)
        _, found = _walked(plan.steps, page)
        # A step of text in the place of one that is drawn finds nothing either.
        drawn = max(sum(step.prompt is not None for step in steps) for steps in (row.reference, plan.steps))
        share = _in_order(wanted, plan.steps) / max(len(wanted), len(plan.steps))
        exact = share == 1.0
        return PlanScore(match=(share + exact) / 2, consistency=found / drawn if drawn else 0.0, exact=exact)


@dataclass(frozen=True)
class _Wanted:
    """A step of the reference, with the page that it finds and the one that it leaves."""

    step: Step
    before: Scene | None
    after: Scene | None

    def is_met_by(self, step: Step) -> bool:
        """Whether another step, on the page that this one finds, does the same."""
        if not _same_words(self.step, step):
            return False
        return step.prompt is None or _acted(_act(step.prompt), self.before) == self.after is not None


def _same_words(asked: Step, step: Step) -> bool:
    if asked.prompt is None:
        return step.prompt is None and step.auxiliary_text == asked.auxiliary_text
    return step.prompt is not None and bool(step.auxiliary_text) == bool(asked.auxiliary_text)


def _walked(steps: Sequence[Step], page: Scene | None) -> tuple[list[_Wanted], int]:
    """The steps with the pages before and after them; and how many with a prompt find what they act on, none
    of them behind a prompt that cannot be carried out."""
    walked: list[_Wanted] = []
    consistent, lost = 0, False
    for step in steps:
        before = page
        if step.prompt is not None:
            act = _act(step.prompt)
            after = _acted(act, page)
            lost = lost or after is None
            if not lost:
                consistent += isinstance(act, StartScene) or (page is not None and applies(act, page))
            page = after or page
        walked.append(_Wanted(step, before, page))
    return walked, consistent


def _acted(act: Any, page: Scene | None) -> Scene | None:
    """The page after it, None where nothing can be done."""
    return None if act is None or (page is None and not isinstance(act, StartScene)) else act.apply(page)


def _in_order(wanted: Sequence[_Wanted], steps: Sequence[Step]) -> int:
    """How many of the wanted steps are met in their order: the longest common subsequence, by the textbook's
    table."""
    above = [0] * (len(steps) + 1)
    for one in wanted:
        row = [0]
        for place, step in enumerate(steps):
            met = one.is_met_by(step)
            row.append(above[place] + 1 if met else max(row[place], above[place + 1]))
        above = row
    return above[-1]


@lru_cache(maxsize=1024)
def _act(prompt: str) -> Any:
    # Every planned step is tried on every page of the reference, and the plans of a group are much alike.
    found = read_prompt(prompt)
    return None if found is None else found[0]
