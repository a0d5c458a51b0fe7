"""What a run works with, as one value: the models, and the functions that complete or check its plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Generator as EventStream
from dataclasses import dataclass

from ...core.errors import ChatError
from ...core.seams.adoption import adopt
from ...core.seams.generator import Generator
from ...core.seams.scorer import Scorer
from ...core.types import Plan, Request, Step, StepResult
from ...core.types.roles import CriticLike, PlannerLike
from ..journal.store import RunStore
from .events import Event

CastOfPlan = Callable[[Request, Plan], Plan]
"""Returns the plan of a request with its cast: the same plan, if nothing is missing."""
RewritesSteps = Callable[[Plan, Step, str], "str | None"]
"""Returns a prompt for the whole image of a failed step, given what the critic said about its last image.

`None` if there is none.
"""
ReviewsStory = Callable[
    [RunStore, Request, Plan, Sequence[StepResult], float], "EventStream[Event, None, int | None]"
]
"""Checks the images of a finished story, and requests another attempt at a step whose image does not fit.

After the last argument, a time of `time.monotonic()`, none is requested. Its result is the index of the step
that is run again, with all steps after it. `None`: the story is done.
"""


@dataclass(frozen=True)
class Collaborators:
    """Everything that a run calls.

    Attributes:
        planner: The planner. Next to a given plan it is recorded as the planner of that plan, and not called.
        generator: The image generator. `None` if the plan has only text-only steps.
        critic: The critic. With `None` or `max_attempts` 1 every step is generated once and not judged,
            unless one generator call returns several images: then the critic chooses the best.
        cast: Returns the plan with its cast, before it is stored. Called for every plan, also a cached one.
        rewriter: Writes a prompt for the whole image of a step whose attempts are used up. The step is then
            generated from text, with new attempts, and stored so in the plan.
        reviewer: Checks the finished story, and may have one of its steps and those after it run again.
        scorer: Chooses the image of a step if several attempts were accepted, or none of several. Default:
            the critic's verdicts decide.
    """

    planner: PlannerLike | None = None
    generator: Generator | None = None
    critic: CriticLike | None = None
    cast: CastOfPlan | None = None
    rewriter: RewritesSteps | None = None
    reviewer: ReviewsStory | None = None
    scorer: Scorer | None = None

    def __post_init__(self) -> None:
        for name, role in (("planner", PlannerLike), ("critic", CriticLike)):
            if (agent := getattr(self, name)) is not None:
                object.__setattr__(self, name, adopt(agent, role))


class PlannedBefore(PlannerLike):
    """Names the planner of a plan that was made elsewhere. It cannot plan itself."""

    def __init__(self, identity: str, prompt_set_digest: str = "") -> None:
        self._identity, self._prompt_set_digest = identity, prompt_set_digest

    @property
    def identity(self) -> str:
        """The identity that was stored with the plan."""
        return self._identity

    @property
    def prompt_set_digest(self) -> str:
        """The digest that was stored with the plan."""
        return self._prompt_set_digest

    def plan(self, request: Request) -> Plan:
        """Raise an error, since this planner cannot be called.

        Raises:
            ChatError: Always.
        """
        raise ChatError(
            "The planner of an earlier plan cannot plan again.", "Pass the plan together with it."
        )
