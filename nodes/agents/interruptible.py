"""Connects a generator, a critic and a story checker to the host's cancel button."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...backend.chat.protocol import ChatModel
from ...backend.feedback.live.interruptible import InterruptibleGenerator, ListenedCritic
from ...backend.generators.protocol import Generator
from ...backend.types import Request, StepResult, StoryFinding
from .. import host
from .reply_inputs import settings_of

if TYPE_CHECKING:
    from ...backend.pipeline.story_check.checker import StoryChecker
    from ...backend.pipeline.story_check.review import StoryReview


def interruptible(generator: Generator) -> InterruptibleGenerator:
    """Return the generator, stopped when the user presses cancel."""
    return InterruptibleGenerator(generator, host.stop_if_interrupted)


class ListenedChecker:
    """Wraps a story checker: `on_start` is called before a check, which does not start after cancel."""

    def __init__(self, checker: StoryChecker, on_start: Callable[[], None]) -> None:
        self._checker, self._on_start = checker, on_start

    @property
    def identity(self) -> str:
        """Identity for cache keys."""
        return self._checker.identity

    def check(self, request: Request, pages: Sequence[StepResult]) -> tuple[StoryFinding, ...]:
        """Return the images that do not fit the story.

        Raises:
            Cancelled: The user pressed cancel.
            AnswerError: The replies cannot be used.
            ChatError: The agent failed.
        """
        host.stop_if_interrupted()
        self._on_start()
        return self._checker.check(request, pages)


def review_with(chat: ChatModel, most: int, on_start: Callable[[], None]) -> StoryReview:
    """Return the story check by this agent.

    Args:
        chat: The agent.
        most: Maximum number of images that are generated again.
        on_start: Called before each check.

    Raises:
        SettingsError: The agent cannot check stories, or `most` is out of range.
    """
    from ...backend.pipeline.story_check.checker import StoryChecker
    from ...backend.pipeline.story_check.review import StoryReview

    checker = StoryChecker(chat, settings_of(chat), staying=[chat])
    return StoryReview(ListenedChecker(checker, on_start), most)


def critic_with(
    chat: ChatModel,
    listener: Callable[[str], None] = lambda text: None,
    replies: Mapping[str, Any] | None = None,
) -> ListenedCritic:
    """Return the critic that uses this agent.

    Args:
        chat: The agent.
        listener: Receives its text as it is generated.
        replies: Reply settings that replace those of the agent.
    """
    from ...backend.agents.critic import Critic

    settings = settings_of(chat, watch_verdict=True).model_copy(update=replies)
    critic = Critic(chat, settings=settings)
    return ListenedCritic(critic, listener, host.stop_if_interrupted)
