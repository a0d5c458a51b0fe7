"""Base of generators that wrap another one: what the wrapped generator can do, the wrapper can do too."""

from __future__ import annotations

import threading
from copy import copy
from typing import TYPE_CHECKING

from ..errors import SettingsError
from ..pictures import Picture
from ..types import StepSettings
from .protocol import (
    IMAGE_MARK,
    FindsLoras,
    Generator,
    KeepsDrafts,
    TakesStepSettings,
    idle_workers,
    is_repeatable,
    max_reference_images,
    stopped_by,
)

if TYPE_CHECKING:
    from typing_extensions import Self


class GeneratorWrapper:
    """Delegates to the wrapped generator. Subclasses add `identity` and `draw`."""

    def __init__(self, generator: Generator) -> None:
        self.inner = generator

    @property
    def step_settings(self) -> frozenset[str]:
        """Same as the wrapped generator."""
        return self.inner.step_settings if isinstance(self.inner, TakesStepSettings) else frozenset()

    @property
    def max_reference_images(self) -> int:
        """Same as the wrapped generator."""
        return max_reference_images(self.inner)

    @property
    def image_mark(self) -> str:
        """Same as the wrapped generator."""
        return getattr(self.inner, "image_mark", IMAGE_MARK)

    @property
    def own_references(self) -> int:
        """Same as the wrapped generator."""
        return getattr(self.inner, "own_references", 0)

    @property
    def repeatable(self) -> bool:
        """Same as the wrapped generator."""
        return is_repeatable(self.inner)

    @property
    def idle_workers(self) -> int:
        """Same as the wrapped generator."""
        return idle_workers(self.inner)

    def draft_of(self, image: Picture) -> Picture | None:
        """Same as the wrapped generator."""
        return self.inner.draft_of(image) if isinstance(self.inner, KeepsDrafts) else None

    def stopped_by(self, over: threading.Event) -> Self:
        """Return this wrapper around the wrapped generator that `over` stops."""
        return self._around(stopped_by(self.inner, over))

    def with_step_settings(self, settings: StepSettings) -> Self:
        """Return this wrapper around the wrapped generator with these settings.

        A generator without settings is unchanged: what is said about the cast is in the prompt.
        """
        if not isinstance(self.inner, TakesStepSettings):
            return self
        return self._around(self.inner.with_step_settings(settings))

    def lora_digest(self, name: str) -> str:
        """Same as the wrapped generator.

        Raises:
            SettingsError: It does not have this LoRA.
        """
        if not isinstance(self.inner, FindsLoras):
            raise SettingsError(
                "This generator does not support LoRAs of steps.", "Remove lora from the plan."
            )
        return self.inner.lora_digest(name)

    def _around(self, generator: Generator) -> Self:
        """Return a copy of this wrapper around another generator."""
        other = copy(self)
        other.inner = generator
        return other
