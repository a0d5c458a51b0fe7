"""Connects a generator, a critic and a story checker to the host's cancel button."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...backend.chat.protocol import ChatModel
from ...backend.feedback.live.interruptible import InterruptibleGenerator, ListenedCritic
from ...backend.generators.protocol import Generator
from .. import host
from .reply_inputs import settings_of

if TYPE_CHECKING:
    from ...backend.pipeline.story_check import StoryReview


def interruptible(generator: Generator) -> InterruptibleGenerator:
    """Return the generator, stopped when the user presses cancel."""
    return InterruptibleGenerator(generator, host.stop_if_interrupted)


def review_with(chat: ChatModel, most: int, on_start: Callable[[], None]) -> StoryReview:
    """Return the story check by this agent.

    Args:
        chat: The agent.
        most: Maximum number of images that are generated again.
        on_start: Called before each check, which does not start after cancel.

    Raises:
        SettingsError: The agent cannot check stories, or `most` is out of range.
    """
    from ...backend.pipeline.story_check import StoryChecker, StoryReview

    def start() -> None:
        host.stop_if_interrupted()
        on_start()

    checker = StoryChecker(chat, settings_of(chat), staying=[chat])
    return StoryReview(checker, most, start)


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
