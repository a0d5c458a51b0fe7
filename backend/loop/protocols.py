"""What the loop asks of those who take part in a run: who plans, who judges, and whose weights can wait.

Decision: protocols and not base classes, so that a test's stand-in, a node's wrapper and backend/agents are
equals to the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ..errors import ChatError
from ..pictures import Picture
from ..types import Plan, Request, UnusedSetting, Verdict

if TYPE_CHECKING:
    from typing_extensions import Self


@runtime_checkable
class PlannerLike(Protocol):
    """What the loop needs of a planner (agents.Planner); its identity names its prompt set too."""

    @property
    def identity(self) -> str:
        """Name of the model and of every setting that shapes its answers; part of cache keys."""
        ...

    @property
    def prompt_set_digest(self) -> str:
        """Digest of the prompt set, empty without one."""
        ...

    def plan(self, request: Request) -> Plan:
        """All steps of the request. Raises AnswerError, ChatError or Cancelled."""
        ...


@dataclass(frozen=True)
class PlannedBefore:
    """Stands beside a plan that is given for the planner that wrote it elsewhere; never asked itself."""

    identity: str
    prompt_set_digest: str = ""

    def plan(self, request: Request) -> Plan:
        """Raises ChatError."""
        raise ChatError("The plan was written before.", "Give it.")


@runtime_checkable
class CriticLike(Protocol):
    """What the loop needs of a critic (agents.Critic); its identity names its prompt set too."""

    @property
    def identity(self) -> str:
        """Name of the model and of every setting that shapes its answers; part of cache keys."""
        ...

    @property
    def prompt_set_digest(self) -> str:
        """Digest of the prompt set, empty without one."""
        ...

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        """Compare before (None: a blank page) and after. Raises ChatError or Cancelled."""
        ...


@runtime_checkable
class BatchCritic(Protocol):
    """A critic that may be able to compare several images with the one before at once."""

    @property
    def judges_together(self) -> bool:
        """Whether it can; if not, it is asked about one after another, so that nothing is lost when it fails
        in between."""
        ...

    def judge_together(
        self, before: Picture | None, afters: Sequence[Picture], original_prompt: str, prompt_used: str
    ) -> list[Verdict]:
        """A verdict on each of the images, which were drawn with the same prompt. Raises ChatError or
        Cancelled."""
        ...


@runtime_checkable
class ContinuesRuns(Protocol):
    """An agent that can use the prompt set of an earlier version, so that its cached answers stay valid."""

    def continuing(self, prompt_sets: frozenset[str]) -> Self:
        """Return the agent for a run that was made with prompt sets of these digests."""
        ...


@runtime_checkable
class Offloadable(Protocol):
    """A planner whose weights can leave the card; they come back by themselves if it is asked again."""

    def offload(self, staying: object) -> None:
        """There is nothing to plan for now. `staying`: the critic, which may be on the same weights; then
        nothing happens."""
        ...


@runtime_checkable
class KnowsUnused(Protocol):
    """An agent that knows which of its settings its backend cannot honor."""

    @property
    def unused_settings(self) -> tuple[UnusedSetting, ...]: ...
