"""Generator and critic with the host's cancel button, whatever they are made of; a listener gets the critic's
tokens as they come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...backend.chat.protocol import ChatModel
from ...backend.generators.protocol import (
    DrawsSeveral,
    FollowsAnchor,
    Generator,
    TakesStepSettings,
    idle_workers,
    is_repeatable,
    max_reference_images,
    stopped_by,
)
from ...backend.pictures import Picture
from ...backend.types import StepSettings, Verdict
from .. import host
from .reply_inputs import settings_of

if TYPE_CHECKING:
    from ...backend.agents.critic import Critic


class InterruptibleGenerator:
    """Implements Generator around another one."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    @property
    def identity(self) -> str:
        return self._generator.identity

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Draw, or raise Cancelled if the user pressed cancel."""
        host.stop_if_interrupted()
        return self._generator.draw(prompt, source, seed)

    @property
    def draws_several(self) -> bool:
        return isinstance(self._generator, DrawsSeveral) and self._generator.draws_several

    def draw_several(self, prompt: str, source: Picture | None, seed: int) -> tuple[Picture, ...]:
        """Draw a batch where the generator makes one, or raise Cancelled if the user pressed cancel."""
        host.stop_if_interrupted()
        assert isinstance(self._generator, DrawsSeveral), "asked only where draws_several says so"
        return self._generator.draw_several(prompt, source, seed)

    @property
    def step_settings(self) -> frozenset[str]:
        generator = self._generator
        return generator.step_settings if isinstance(generator, TakesStepSettings) else frozenset()

    @property
    def max_reference_images(self) -> int:
        return max_reference_images(self._generator)

    @property
    def repeatable(self) -> bool:
        return is_repeatable(self._generator)

    @property
    def idle_workers(self) -> int:
        return idle_workers(self._generator)

    def stopped_by(self, over: threading.Event) -> InterruptibleGenerator:
        """The same around the generator that `over` stops."""
        return InterruptibleGenerator(stopped_by(self._generator, over))

    def with_step_settings(self, settings: StepSettings) -> InterruptibleGenerator:
        """The same around the generator with these settings."""
        assert isinstance(self._generator, TakesStepSettings), "asked only where step_settings says so"
        return InterruptibleGenerator(self._generator.with_step_settings(settings))

    def set_anchor(self, anchor: Picture | None) -> None:
        """Name the story's first image to a generator that asks for it."""
        if isinstance(self._generator, FollowsAnchor):
            self._generator.set_anchor(anchor)


class ListenedCritic:
    """Implements loop.Judges around a Critic: `listener` gets its words, and it stops within one of them."""

    def __init__(self, critic: Critic, listener: Callable[[str], None]) -> None:
        self._critic, self._listener = critic, listener

    @property
    def identity(self) -> str:
        return self._critic.identity

    @property
    def prompt_set_digest(self) -> str:
        return self._critic.prompt_set_digest

    def continuing(self, prompt_sets: frozenset[str]) -> ListenedCritic:
        """As Critic.continuing."""
        return ListenedCritic(self._critic.continuing(prompt_sets), self._listener)

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        """Judge, or raise Cancelled if the user pressed cancel."""
        host.stop_if_interrupted()
        return self._critic.judge(before, after, original_prompt, prompt_used, self._hear)

    @property
    def judges_together(self) -> bool:
        return self._critic.judges_together

    def judge_together(
        self, before: Picture | None, afters: Sequence[Picture], original_prompt: str, prompt_used: str
    ) -> list[Verdict]:
        """Judge the candidates of a try in the same passes; the listener gets no words of them. Raises
        Cancelled if the user pressed cancel."""
        host.stop_if_interrupted()
        return self._critic.judge_together(before, afters, original_prompt, prompt_used, self._hear)

    def _hear(self, text: str) -> None:
        host.stop_if_interrupted()
        self._listener(text)


def critic_with(chat: ChatModel, listener: Callable[[str], None] = lambda text: None) -> ListenedCritic:
    """The critic that speaks through this agent; `listener` gets its words as they come."""
    from ...backend.agents.critic import Critic

    return ListenedCritic(Critic(chat, settings=settings_of(chat, watch_verdict=True)), listener)
