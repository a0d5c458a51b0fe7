"""A finding of the plan lint, and the plan with its request as the rules see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import Field

from ...types import Plan, Request, Step, Text, Value
from ..requested.count import AskedCount, asked_count
from ..requested.images import asks_for_images

MAX_READ = 2_000
"""Maximum length, in characters, of the part of a prompt or a request that is read."""


class Finding(Value):
    """One problem of a plan."""

    step: int | None = Field(description="Number of the step; null if the finding concerns the whole plan.")
    rule: str = Field(description="Id of the rule.")
    message: Text = Field(description="What is wrong, with the words of the plan.")

    @property
    def sentence(self) -> str:
        """The message with the number of its step."""
        return self.message if self.step is None else f"Step {self.step}: {self.message}"


@dataclass(frozen=True)
class Asked:
    """What can be counted in a plan.

    Attributes:
        count: The number of steps, if one is known.
        named: The number is in the request's text, so it may also be the number of images.
        images: The request asks for images.
    """

    count: AskedCount | None
    named: bool
    images: bool

    def distance(self, plan: Plan) -> int:
        """Return by how many steps the plan is too long or too short."""
        if self.count is None:
            return 0
        drawn = sum(bool(step.prompt) for step in plan.steps)
        counts = {len(plan.steps), drawn or len(plan.steps)} if self.named else {len(plan.steps)}
        return min(map(self.count.distance, counts))

    def lacks_images(self, plan: Plan) -> bool:
        """Return whether the plan has no images although the request asks for them."""
        return self.images and not any(step.prompt for step in plan.steps)

    def is_met(self, plan: Plan) -> bool:
        """Return whether the plan is as requested."""
        return not self.distance(plan) and not self.lacks_images(plan)


def asked_in(request: Request, step_count: int = 0) -> Asked:
    """Return what a request asks for. `step_count` replaces the number in its text, unless it is 0."""
    images = asks_for_images(request)
    if step_count:
        return Asked(AskedCount(step_count, step_count, True), False, images)
    count = asked_count(request.text)
    return Asked(count if count is not None and count.is_clear else None, True, images)


@dataclass(frozen=True)
class Checked:
    """A plan that is checked, with the text of its request (empty if it is unknown)."""

    plan: Plan
    request: str
    asked: Asked

    @property
    def drawn(self) -> list[tuple[Step, str]]:
        """The steps with an image, each with the beginning of its prompt, without the style."""
        return [(step, step.prompt[:MAX_READ]) for step in self.plan.steps if step.prompt]


Found = Iterator[tuple[int | None, str]]
"""Numbers of steps (`None` for the whole plan) with messages."""


@dataclass(frozen=True)
class Rule:
    """A rule: its id, what it asks of a plan in one sentence, and the function that finds what breaks it."""

    id: str
    sentence: str
    find: Callable[[Checked], Found]
