"""Wrappers that connect a generator and a critic to a cancel button and stream the critic's text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...core.pictures import Picture
from ...core.seams.generator import Generator, GeneratorWrapper
from ...core.types import CheckedItem, ChecklistItem, Enhancement, UnusedSetting, Verdict
from ...core.types.roles import CriticLike

if TYPE_CHECKING:
    from ...story.agents.critic import Critic

Stop = Callable[[], None]
"""Raises Cancelled if the user pressed cancel."""


class InterruptibleGenerator(GeneratorWrapper):
    """Wraps a generator so that it stops when the user presses cancel."""

    def __init__(self, inner: Generator, stop: Stop) -> None:
        super().__init__(inner)
        self._stop = stop

    def prompt_for(self, prompt: str, is_edit: bool) -> str:
        """Return the prompt. Raises Cancelled if the user pressed cancel."""
        self._stop()
        return prompt

    def enhance(self, prompt: str, is_edit: bool) -> Enhancement | None:
        """Return the enhancement of a prompt. Raises Cancelled if the user pressed cancel."""
        self._stop()
        return self.inner.enhance(prompt, is_edit)


class ListenedCritic(CriticLike):
    """Wraps a critic: `listener` receives its text, and it stops at the next token after cancel."""

    checks_items = True

    def __init__(self, critic: Critic, listener: Callable[[str], None], stop: Stop) -> None:
        self._critic, self._listener, self._stop = critic, listener, stop
        self.chat = critic.chat

    @property
    def identity(self) -> str:
        """Identity for cache keys."""
        return self._critic.identity

    @property
    def prompt_set_digest(self) -> str:
        """Digest of the critic's prompt set."""
        return self._critic.prompt_set_digest

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        """Judge one image.

        Raises:
            Cancelled: The user pressed cancel.
            ChatError: The agent failed.
        """
        self._stop()
        return self._critic.judge(before, after, original_prompt, prompt_used, self._hear)

    @property
    def unused_settings(self) -> tuple[UnusedSetting, ...]:
        """Settings that its backend does not support."""
        return self._critic.unused_settings

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
        self._stop()
        return self._critic.judge_together(before, afters, original_prompt, prompt_used, self._hear)

    def check(
        self, before: Picture | None, after: Picture, original_prompt: str, items: Sequence[ChecklistItem]
    ) -> tuple[CheckedItem, ...]:
        """Answer the items of a checklist, without streaming.

        Raises:
            Cancelled: The user pressed cancel.
            ChatError: The agent failed.
        """
        self._stop()
        return self._critic.check(before, after, original_prompt, items, lambda text: self._stop())

    def _hear(self, text: str) -> None:
        self._stop()
        self._listener(text)
