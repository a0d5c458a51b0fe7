"""Wrappers that connect a generator and a critic to the host's cancel button and stream the critic's text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...backend.chat.protocol import ChatModel
from ...backend.generators.protocol import DrawsSeveral, EnhancesPrompts, FollowsAnchor
from ...backend.generators.wrapper import GeneratorWrapper
from ...backend.pictures import Picture
from ...backend.types import (
    CheckedItem,
    ChecklistItem,
    Enhancement,
    Request,
    StepResult,
    StoryFinding,
    Verdict,
)
from .. import host
from .reply_inputs import settings_of

if TYPE_CHECKING:
    from ...backend.agents.critic import Critic
    from ...backend.pipeline.story_check.checker import StoryChecker
    from ...backend.pipeline.story_check.review import StoryReview


class InterruptibleGenerator(GeneratorWrapper):
    """Wraps a generator so that it stops when the user presses cancel."""

    @property
    def identity(self) -> str:
        """Identity for cache keys."""
        return self.inner.identity

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image.

        Raises:
            Cancelled: The user pressed cancel.
            GeneratorError: The generator failed.
        """
        host.stop_if_interrupted()
        return self.inner.draw(prompt, source, seed)

    @property
    def draws_several(self) -> bool:
        """Whether one call gives several images."""
        return isinstance(self.inner, DrawsSeveral) and self.inner.draws_several

    def draw_several(self, prompt: str, source: Picture | None, seed: int) -> tuple[Picture, ...]:
        """Generate a batch.

        Raises:
            Cancelled: The user pressed cancel.
            GeneratorError: The generator failed.
        """
        host.stop_if_interrupted()
        assert isinstance(self.inner, DrawsSeveral), "called only if draws_several is true"
        return self.inner.draw_several(prompt, source, seed)

    def enhance(self, prompt: str, is_edit: bool) -> Enhancement | None:
        """Return what a prompt enhancer makes of a prompt, `None` without an enhancer.

        Raises:
            Cancelled: The user pressed cancel.
            GeneratorError: The enhancer failed.
        """
        host.stop_if_interrupted()
        return self.inner.enhance(prompt, is_edit) if isinstance(self.inner, EnhancesPrompts) else None

    def keep_enhancement(self, prompt: str, is_edit: bool, enhancement: Enhancement) -> None:
        """Pass a recorded enhancement to a generator with an enhancer."""
        if isinstance(self.inner, EnhancesPrompts):
            self.inner.keep_enhancement(prompt, is_edit, enhancement)

    def set_anchor(self, anchor: Picture | None) -> None:
        """Pass the story's first image to a generator that uses it."""
        if isinstance(self.inner, FollowsAnchor):
            self.inner.set_anchor(anchor)


class ListenedCritic:
    """Wraps a critic: `listener` receives its text, and it stops at the next token after cancel."""

    def __init__(self, critic: Critic, listener: Callable[[str], None]) -> None:
        self._critic, self._listener = critic, listener

    @property
    def identity(self) -> str:
        """Identity for cache keys."""
        return self._critic.identity

    @property
    def prompt_set_digest(self) -> str:
        """Digest of the critic's prompt set."""
        return self._critic.prompt_set_digest

    def continuing(self, prompt_sets: frozenset[str]) -> ListenedCritic:
        """As Critic.continuing."""
        return ListenedCritic(self._critic.continuing(prompt_sets), self._listener)

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        """Judge one image.

        Raises:
            Cancelled: The user pressed cancel.
            ChatError: The agent failed.
        """
        host.stop_if_interrupted()
        return self._critic.judge(before, after, original_prompt, prompt_used, self._hear)

    @property
    def judges_together(self) -> bool:
        """Whether candidates are judged in one batch."""
        return self._critic.judges_together

    def judge_together(
        self, before: Picture | None, afters: Sequence[Picture], original_prompt: str, prompt_used: str
    ) -> list[Verdict]:
        """Judge the candidates of an attempt in one batch, without streaming.

        Raises:
            Cancelled: The user pressed cancel.
            ChatError: The agent failed.
        """
        host.stop_if_interrupted()
        return self._critic.judge_together(before, afters, original_prompt, prompt_used, self._hear)

    def check(
        self, before: Picture | None, after: Picture, original_prompt: str, items: Sequence[ChecklistItem]
    ) -> tuple[CheckedItem, ...]:
        """Answer the items of a checklist, without streaming.

        Raises:
            Cancelled: The user pressed cancel.
            ChatError: The agent failed.
        """
        host.stop_if_interrupted()
        return self._critic.check(
            before, after, original_prompt, items, lambda text: host.stop_if_interrupted()
        )

    def _hear(self, text: str) -> None:
        host.stop_if_interrupted()
        self._listener(text)


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


def critic_with(chat: ChatModel, listener: Callable[[str], None] = lambda text: None) -> ListenedCritic:
    """Return the critic that uses this agent. `listener` receives its text as it is generated."""
    from ...backend.agents.critic import Critic

    return ListenedCritic(Critic(chat, settings=settings_of(chat, watch_verdict=True)), listener)
