"""The planner and the critic as a run calls them: one base class each, with defaults.

`agents.Planner` and `agents.Critic` ask chat models. A planner or critic of your own is a subclass, or it has
the same methods (`seams.adoption.adopt`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..errors import ChatError
from ..pictures import Picture
from .checklist import CheckedItem, ChecklistItem
from .plan import Plan, Request
from .trajectory import UnusedSetting, Verdict


class AgentLike(ABC):
    """What planner and critic have in common."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Model, prompt set and all settings that affect its replies; part of the cache keys."""

    @property
    def prompt_set_digest(self) -> str:
        """Digest of the prompt set; empty if there is none."""
        return ""

    @property
    def unused_settings(self) -> tuple[UnusedSetting, ...]:
        """Settings that were requested and that its backend does not support."""
        return ()


class PlannerLike(AgentLike):
    """Writes the plan of a request."""

    @abstractmethod
    def plan(self, request: Request) -> Plan:
        """Return a plan with all steps of the request.

        Raises:
            AnswerError: The reply could not be parsed.
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """

    def offload(self, staying: object) -> None:
        """Free VRAM, since no plan is needed for now. Default: do nothing.

        Args:
            staying: The critic. If it uses the same weights, nothing happens.
        """


class CriticLike(AgentLike):
    """Judges the images of a run.

    Attributes:
        checks_items: Whether it answers the items of a checklist with `check`.
    """

    checks_items: bool = False

    @abstractmethod
    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        """Compare an image with the one before it (`None`: a white image) and return the verdict.

        Raises:
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """

    @property
    def judges_together(self) -> bool:
        """Whether it judges several images in one call.

        If not, it is called once per image, so that finished verdicts survive a failure.
        """
        return False

    def judge_together(
        self, before: Picture | None, afters: Sequence[Picture], original_prompt: str, prompt_used: str
    ) -> list[Verdict]:
        """Return a verdict for each image; all were generated with the same prompt.

        Raises:
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        return [self.judge(before, after, original_prompt, prompt_used) for after in afters]

    def check(
        self, before: Picture | None, after: Picture, original_prompt: str, items: Sequence[ChecklistItem]
    ) -> tuple[CheckedItem, ...]:
        """Answer each item about an image.

        Raises:
            ChatError: The backend failed, or the critic does not check items.
            Cancelled: The run was cancelled.
        """
        raise ChatError("This critic does not answer checklists.", "Use another critic, or no checklist.")


class PartStore(ABC):
    """Stores the replies of an unfinished plan (`journal`)."""

    @abstractmethod
    def reply(self, planner: str, question: str) -> str | None:
        """Return the stored reply of the planner with this identity to this question, if there is one."""

    @abstractmethod
    def keep(self, planner: str, question: str, reply: str) -> None:
        """Store a reply."""
