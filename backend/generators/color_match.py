"""A generator whose images keep the colours of the image they edit, or of the story's first one.

Decision: an edit model shifts all colours a little at every step (a yellow tint, lost contrast), which adds
up over a story. The shift is read from what both images have in common (drift.py) and undone by one gain and
offset a channel. Only a small shift is drift; a large one, or images with nothing in common, is the change
that the step asked for and is left alone.
"""

from __future__ import annotations

import threading
from copy import copy
from typing import Literal, TypeVar

from ..drift import block_pixels, color_shift, unchanged
from ..errors import SettingsError
from ..pictures import Picture
from ..types import StepSettings
from .protocol import Generator, TakesStepSettings, idle_workers, max_reference_images, stopped_by

Target = Literal["to the source", "to the first image"]
OFF, TO_SOURCE, TO_FIRST = "off", "to the source", "to the first image"
MATCHES = (OFF, TO_SOURCE, TO_FIRST)
MAX_GAIN_CHANGE = 0.15
MAX_SHIFT = 20.0
MAX_RESIDUAL = 12.0
NEGLIGIBLE_SHIFT = 0.5


def color_matched(generator: Generator, match: str) -> Generator:
    """The generator with this one of MATCHES; raises SettingsError for an unknown one."""
    if match == OFF:
        return generator
    if match == TO_SOURCE:
        return ColorMatched(generator)
    if match == TO_FIRST:
        return AnchorMatched(generator)
    raise SettingsError(f"There is no colour match {match!r}.", f"Known: {', '.join(MATCHES)}.")


Matched = TypeVar("Matched", bound="_Matched")


class _Matched:
    """What both matches leave to the generator inside."""

    def __init__(self, generator: Generator) -> None:
        self.inner = generator

    @property
    def step_settings(self) -> frozenset[str]:
        """As of the generator inside."""
        return self.inner.step_settings if isinstance(self.inner, TakesStepSettings) else frozenset()

    @property
    def max_reference_images(self) -> int:
        """As of the generator inside."""
        return max_reference_images(self.inner)

    @property
    def idle_workers(self) -> int:
        """As of the generator inside."""
        return idle_workers(self.inner)

    def stopped_by(self: Matched, over: threading.Event) -> Matched:
        """The same around the generator that `over` stops."""
        other = copy(self)
        other.inner = stopped_by(self.inner, over)
        return other

    def with_step_settings(self: Matched, settings: StepSettings) -> Matched:
        """The same around the generator with these settings."""
        assert isinstance(self.inner, TakesStepSettings), "asked only where step_settings says so"
        other = copy(self)
        other.inner = self.inner.with_step_settings(settings)
        return other


class ColorMatched(_Matched):
    """Implements Generator around another one; every edit gets the colours of its source."""

    @property
    def identity(self) -> str:
        return f"{self.inner.identity} color-match=source/1"

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Draw, and undo the shift of colours against the source. Raises what the other one raises."""
        image = self.inner.draw(prompt, source, seed)
        return image if source is None else match_colors(image, source)


class AnchorMatched(_Matched):
    """Every edit gets the colours of the anchor, which the loop names before each step
    (protocol.FollowsAnchor)."""

    def __init__(self, generator: Generator) -> None:
        super().__init__(generator)
        self._anchor: Picture | None = None

    @property
    def identity(self) -> str:
        """Names the anchor too: the same prompt, source and seed give another image for another one."""
        anchor = f":{self._anchor.digest}" if self._anchor else ""
        return f"{self.inner.identity} color-match=first/1{anchor}"

    def set_anchor(self, anchor: Picture | None) -> None:
        """Image whose colours the next draws get; None leaves them as they are."""
        self._anchor = anchor

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Draw, and undo the shift of colours against the anchor. Raises what the other one raises."""
        image = self.inner.draw(prompt, source, seed)
        anchor = self._anchor or source
        return image if anchor is None or source is None else match_colors(image, anchor)


def match_colors(image: Picture, target: Picture) -> Picture:
    """The image with the colours that it shares with `target` brought to that one's; itself where nothing is
    to be done."""
    import numpy as np

    wanted, found = block_pixels(target), block_pixels(image)
    kept = unchanged(wanted, found)
    wanted, found = wanted.mean(axis=1)[kept], found.mean(axis=1)[kept]
    gain, offset = color_shift(wanted, found)
    shift = np.abs((gain - 1.0) * found.mean(axis=0) + offset)
    residual = float(np.sqrt(((gain * found + offset - wanted) ** 2).mean()))
    if (
        residual > MAX_RESIDUAL
        or shift.max() > MAX_SHIFT
        or np.abs(gain - 1.0).max() > MAX_GAIN_CHANGE
        or max(shift.max(), 64.0 * np.abs(gain - 1.0).max()) < NEGLIGIBLE_SHIFT
    ):
        return image
    levels = np.arange(256)
    table = [np.clip(np.rint(gain[channel] * levels + offset[channel]), 0, 255) for channel in range(3)]
    return Picture(image.image.point([int(value) for channel in table for value in channel]))
