"""Abilities that only some chat backends have, as protocols that `isinstance` can check.

An agent asks for an ability before it uses it, so a backend without it (also one of a plug-in) needs only
`protocol.ChatModel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from ..prompts.trained_with import TrainedWith
from ..types import Plan
from .protocol import Message, Reply, ReplySettings


@runtime_checkable
class RepliesTogether(Protocol):
    """A chat backend that can answer several messages in one batch."""

    def reply_together(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> list[Reply]:
        """Return a reply to each message, the same as for separate calls except for rounding.

        `on_token` is called with an empty text at every token and may raise `Cancelled`.

        Raises:
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        ...


@runtime_checkable
class Constrains(Protocol):
    """A chat backend that can constrain a reply to the grammar of its answer."""

    @property
    def constrains_replies(self) -> bool:
        """Whether it can do so here; its library may not be installed."""
        ...


@runtime_checkable
class OnDevice(Protocol):
    """A chat backend whose weights are on a device of this machine and can be moved away."""

    @property
    def weights(self) -> object:
        """The weights; the same object for agents that share them."""
        ...

    def offload(self) -> None:
        """Free the device. The next reply loads the weights again."""
        ...


@runtime_checkable
class Reserves(Protocol):
    """A chat backend that reserves memory for the longest allowed answer."""

    @property
    def most_tokens(self) -> int:
        """Default token limit of an answer."""
        ...


@runtime_checkable
class WasTrained(Protocol):
    """A chat backend that knows what its checkpoint was trained with."""

    @property
    def trained(self) -> TrainedWith:
        """What the checkpoint was trained with."""
        ...


@runtime_checkable
class MaySee(Protocol):
    """A chat backend that knows whether its model can see images."""

    @property
    def sees_images(self) -> bool:
        """Whether the model can see images."""
        ...


@runtime_checkable
class MayCheckStories(Protocol):
    """A chat backend that knows whether its model can read a sheet of several images."""

    @property
    def checks_stories(self) -> bool:
        """Whether the model can check a story."""
        ...


@runtime_checkable
class ChecksRequests(Protocol):
    """A chat backend that knows in advance which requests it cannot plan."""

    def check_request(self, text: str) -> None:
        """Check that it can plan a request.

        Raises:
            SettingsError: It cannot.
        """
        ...


@runtime_checkable
class ReviewsPlans(Protocol):
    """A chat backend that can tell what a plan leaves out of its request."""

    def plan_warning(self, text: str, plan: Plan) -> str:
        """Return a warning about the plan of a request; empty if there is none."""
        ...


@runtime_checkable
class Settles(Protocol):
    """A chat backend that must test its weights on their device before its identity is known."""

    @property
    def is_settled(self) -> bool:
        """Whether the test is done. The first access to the identity, or the first reply, runs it."""
        ...
