"""The cast of an item: characters with reference images, and who is in each step.

The loop shows the image model the references of those who are in a step, and no others, and tells it their
exact number (loop/images/earlier_images.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....backend.cast import MAX_CAST, MAX_NAME, NOT_IN_A_NAME, CastMember
from ....backend.pictures import Picture
from ....backend.types import Plan, Request, Step, StepImage


@dataclass(frozen=True)
class ItemCast:
    """Gives the plan of an item its cast (`CastOfPlan`). Can be pickled.

    Attributes:
        members: Names with the reference image, the most important first.
        present: For every step the names of those who are in it. They need not be members.
    """

    members: tuple[tuple[str, Path], ...]
    present: tuple[tuple[str, ...], ...]

    def __call__(self, request: Request, plan: Plan) -> Plan:
        """Return the plan with its cast.

        If the plan has another number of steps than the item, the names in its prompts decide who is in them.
        The first step has no image to edit: a reference shows a character, not the scene.
        """
        shown = _shown_names([name for name, _ in self.members])
        cast = tuple(
            CastMember(name=shown[name], images=(StepImage(name=path.name, picture=Picture.open(path)),))
            for name, path in self.members
            if name in shown
        )
        steps = plan.steps
        if len(steps) == len(self.present):
            steps = tuple(_step(step, names, shown) for step, names in zip(steps, self.present, strict=True))
        first = steps[0].settings.model_copy(update={"source": "text"})
        steps = (steps[0].model_copy(update={"settings": first}), *steps[1:])
        return plan.model_copy(update={"cast": cast, "steps": steps})


def _step(step: Step, names: Sequence[str], shown: dict[str, str]) -> Step:
    """Return the step with its list, unless it names others than members: then the list would be wrong."""
    if not all(name in shown for name in names):
        return step
    return step.model_copy(update={"cast": tuple(shown[name] for name in names)})


def _shown_names(names: Sequence[str]) -> dict[str, str]:
    """Return the names in the form of a cast, without those that are the same then, as many as fit."""
    found: dict[str, str] = {}
    for name in names:
        shown = " ".join(NOT_IN_A_NAME.sub(" ", name).split())[:MAX_NAME].strip()
        if shown and shown.casefold() not in {one.casefold() for one in found.values()}:
            found[name] = shown
    return dict(list(found.items())[:MAX_CAST])
