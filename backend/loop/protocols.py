"""Protocols of the planner and critic that the loop calls.

They are protocols and not base classes, so a test double, a node's wrapper and the classes of backend/agents
are all equally usable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ..checklist import CheckedItem, ChecklistItem
from ..errors import ChatError
from ..pictures import Picture
from ..types import Plan, Request, Step, StepResult, UnusedSetting, Verdict

if TYPE_CHECKING:
    from collections.abc import Generator as EventStream

    from ..journal.store import RunStore
    from .events import Event


CastOfPlan = Callable[[Request, Plan], Plan]
"""Returns the plan of a request with its cast: the same plan, if nothing is missing."""
RewritesSteps = Callable[[Plan, Step, str], "str | None"]
"""Returns a prompt for the whole image of a failed step, given what the critic said about its last image.

`None` if there is none.
"""


class StoryReviewer(Protocol):
    """Checks the images of a finished story together (see `pipeline.story_check`)."""

    def review(
        self, store: RunStore, request: Request, plan: Plan, results: Sequence[StepResult], deadline: float
    ) -> EventStream[Event, None, int | None]:
        """Check the story, and request another attempt at a step whose image does not fit.

        After `deadline`, a time of `time.monotonic()`, none is requested.

        Returns:
            The index of the step that is to be run again, with all steps after it. `None`: the story is done.

        Raises:
            Cancelled: The run was cancelled.
        """
        ...


@runtime_checkable
class PlannerLike(Protocol):
    """The planner interface of the loop (see `agents.Planner`). Its identity includes the prompt set."""

    @property
    def identity(self) -> str:
        """Model and all settings that affect its replies; part of the cache keys."""
        ...

    @property
    def prompt_set_digest(self) -> str:
        """Digest of the prompt set; empty if there is none."""
        ...

    def plan(self, request: Request) -> Plan:
        """Return a plan with all steps of the request.

        Raises:
            AnswerError: The reply could not be parsed.
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        ...


@dataclass(frozen=True)
class PlannedBefore:
    """Names the planner of a plan that was made elsewhere. It cannot plan itself."""

    identity: str
    prompt_set_digest: str = ""

    def plan(self, request: Request) -> Plan:
        """Raise an error, since this planner cannot be called.

        Raises:
            ChatError: Always.
        """
        raise ChatError(
            "The planner of an earlier plan cannot plan again.", "Pass the plan together with it."
        )


@runtime_checkable
class CriticLike(Protocol):
    """The critic interface of the loop (see `agents.Critic`). Its identity includes the prompt set."""

    @property
    def identity(self) -> str:
        """Model and all settings that affect its replies; part of the cache keys."""
        ...

    @property
    def prompt_set_digest(self) -> str:
        """Digest of the prompt set; empty if there is none."""
        ...

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        """Compare an image with the one before it (`None`: a white image) and return the verdict.

        Raises:
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        ...


@runtime_checkable
class BatchCritic(Protocol):
    """A critic that may be able to judge several images in one call."""

    @property
    def judges_together(self) -> bool:
        """Whether it can.

        If not, it is called once per image, so that finished verdicts survive a failure.
        """
        ...

    def judge_together(
        self, before: Picture | None, afters: Sequence[Picture], original_prompt: str, prompt_used: str
    ) -> list[Verdict]:
        """Return a verdict for each image; all were generated with the same prompt.

        Raises:
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        ...


@runtime_checkable
class ChecksItems(Protocol):
    """A critic that can answer the items of a checklist."""

    def check(
        self, before: Picture | None, after: Picture, original_prompt: str, items: Sequence[ChecklistItem]
    ) -> tuple[CheckedItem, ...]:
        """Answer each item about an image.

        Raises:
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        ...


@runtime_checkable
class Offloadable(Protocol):
    """A planner whose weights can be moved out of VRAM; they are loaded again when it is called."""

    def offload(self, staying: object) -> None:
        """Free VRAM, since no plan is needed for now.

        Args:
            staying: The critic. If it uses the same weights, nothing happens.
        """
        ...


@runtime_checkable
class KnowsUnused(Protocol):
    """An agent that knows which of its settings its backend does not support."""

    @property
    def unused_settings(self) -> tuple[UnusedSetting, ...]:
        """The settings without effect."""
        ...
