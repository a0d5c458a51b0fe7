"""Wraps a generator so that a prompt enhancer rewrites every prompt before the image model gets it.

Image models are trained on long captions, and their makers recommend an enhancer. Only the image model sees
the enhanced prompt: the critic judges against the plan's prompt, and its refined prompt is enhanced again.
The enhancer's identity is part of the generator's, so images and verdicts are cached as for any generator.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Protocol

from ..errors import AnswerError, ChatError, GeneratorError
from ..pictures import Picture
from ..types import Enhancement
from .protocol import DrawsSeveral, FollowsAnchor, Generator, bounded_identity
from .wrapper import GeneratorWrapper

MAX_CACHED = 1_000
"""Maximum number of enhancements that are kept in RAM."""


class Enhancer(Protocol):
    """Rewrites prompts for an image model (see `agents.PromptEnhancer`)."""

    @property
    def identity(self) -> str:
        """Everything that affects an enhanced prompt; part of cache keys."""
        ...

    def enhance(self, prompt: str, is_edit: bool) -> Enhancement:
        """Return the enhanced prompt of a step that edits an image, or generates one from text.

        Raises:
            AnswerError: The prompt cannot be sent to the model.
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        ...


def enhanced(generator: Generator, enhancer: Enhancer) -> EnhancedGenerator:
    """Return the generator with an enhancer in front."""
    # A generator with `set_anchor` serves one story at a time, so only those get that method.
    kind = AnchoredEnhancedGenerator if isinstance(generator, FollowsAnchor) else EnhancedGenerator
    return kind(generator, enhancer)


class EnhancedGenerator(GeneratorWrapper):
    """The image model gets the enhanced prompt. Copies of the wrapper share the enhancer and its cache."""

    def __init__(self, generator: Generator, enhancer: Enhancer) -> None:
        super().__init__(generator)
        self.enhancer = enhancer
        self._cached: OrderedDict[tuple[str, bool], Enhancement] = OrderedDict()
        self._one_at_a_time = threading.Lock()

    @property
    def identity(self) -> str:
        """Identity of the wrapped generator and of the enhancer."""
        return bounded_identity(f"{self.inner.identity} enhancer={self.enhancer.identity}")

    def enhance(self, prompt: str, is_edit: bool) -> Enhancement:
        """Return the enhancement of a prompt. The enhancer is asked once per prompt.

        Raises:
            GeneratorError: The enhancer failed.
            Cancelled: The run was cancelled.
        """
        with self._one_at_a_time:
            if (prompt, is_edit) not in self._cached:
                try:
                    made = self.enhancer.enhance(prompt, is_edit)
                except (AnswerError, ChatError) as error:
                    raise GeneratorError(
                        f"The prompt enhancer failed: {error.message}", error.hint
                    ) from error
                self._keep(prompt, is_edit, made)
            return self._cached[prompt, is_edit]

    def keep_enhancement(self, prompt: str, is_edit: bool, enhancement: Enhancement) -> None:
        """Use this enhancement for the prompt."""
        with self._one_at_a_time:
            self._keep(prompt, is_edit, enhancement)

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Enhance the prompt and generate an image.

        Raises:
            GeneratorError: The enhancer or the wrapped generator failed.
            Cancelled: The run was cancelled.
        """
        return self.inner.draw(self.enhance(prompt, source is not None).prompt, source, seed)

    @property
    def draws_several(self) -> bool:
        """Same as the wrapped generator."""
        return isinstance(self.inner, DrawsSeveral) and self.inner.draws_several

    def draw_several(self, prompt: str, source: Picture | None, seed: int) -> tuple[Picture, ...]:
        """Enhance the prompt and generate a batch. Errors are those of `draw`."""
        assert isinstance(self.inner, DrawsSeveral), "only called if draws_several is true"
        return self.inner.draw_several(self.enhance(prompt, source is not None).prompt, source, seed)

    def _keep(self, prompt: str, is_edit: bool, enhancement: Enhancement) -> None:
        self._cached[prompt, is_edit] = enhancement
        while len(self._cached) > MAX_CACHED:
            self._cached.popitem(last=False)


class AnchoredEnhancedGenerator(EnhancedGenerator):
    """Wraps a generator whose edits depend on the story's first image (protocol.FollowsAnchor)."""

    def set_anchor(self, anchor: Picture | None) -> None:
        """Pass the story's first image to the wrapped generator."""
        if isinstance(self.inner, FollowsAnchor):
            self.inner.set_anchor(anchor)
