"""Wraps a generator so that its edits keep the colors, or the untouched pixels, of an earlier image.

An edit model shifts all colors a little at every step (a yellow tint, lost contrast), which adds up over a
story. The shift is measured where both images agree (drift.py) and undone by a gain and offset per channel.
Only a small shift is treated as drift. A large shift, or images with nothing in common, is the change that
the step asked for and is kept.

`put back` does more: all pixels of the source image return where the edit did not need to change them
(drift/put_back.py). It is skipped for prompts that ask for new light, weather, style or view.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Literal

from ..drift.measure import block_pixels, color_shift, unchanged
from ..drift.pictures import asks_for_whole_image, put_back
from ..errors import SettingsError
from ..pictures import Picture
from .protocol import Generator
from .wrapper import GeneratorWrapper

Target = Literal["to the source", "to the first image"]
OFF, TO_SOURCE, TO_FIRST = "off", "to the source", "to the first image"
PUT_BACK = "put back"
MATCHES = (OFF, TO_SOURCE, TO_FIRST, PUT_BACK)
MAX_DRAFTS = 16
"""Drafts that are kept in memory until the loop has recorded them: at least one per worker."""
MAX_GAIN_CHANGE = 0.15
MAX_SHIFT = 20.0
MAX_RESIDUAL = 12.0
NEGLIGIBLE_SHIFT = 0.5


def color_matched(generator: Generator, match: str) -> Generator:
    """Return the generator wrapped for one of MATCHES.

    Raises:
        SettingsError: `match` is unknown.
    """
    if match == OFF:
        return generator
    if match == TO_SOURCE:
        return ColorMatched(generator)
    if match == TO_FIRST:
        return AnchorMatched(generator)
    if match == PUT_BACK:
        return Restoring(generator)
    raise SettingsError(f"Unknown color match {match!r}.", f"Known: {', '.join(MATCHES)}.")


class ColorMatched(GeneratorWrapper):
    """Wraps a generator. Every edit gets the colors of its source image."""

    @property
    def identity(self) -> str:
        """Identity of the wrapped generator and of the color match."""
        return f"{self.inner.identity} color-match=source/1"

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image and undo the color shift relative to the source image.

        Raises:
            GeneratorError: As for the wrapped generator.
            Cancelled: As for the wrapped generator.
        """
        image = self.inner.draw(prompt, source, seed)
        return image if source is None else match_colors(image, source)


class AnchorMatched(GeneratorWrapper):
    """Wraps a generator. Every edit gets the colors of the anchor, which the loop sets before each step.

    See protocol.FollowsAnchor.
    """

    def __init__(self, generator: Generator) -> None:
        super().__init__(generator)
        self._anchor: Picture | None = None

    @property
    def identity(self) -> str:
        """Identity of the wrapped generator and of the anchor, which affects the image too."""
        anchor = f":{self._anchor.digest}" if self._anchor else ""
        return f"{self.inner.identity} color-match=first/1{anchor}"

    def set_anchor(self, anchor: Picture | None) -> None:
        """Set the image whose colors the next edits get. None keeps the colors unchanged."""
        self._anchor = anchor

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image and undo the color shift relative to the anchor.

        Raises:
            GeneratorError: As for the wrapped generator.
            Cancelled: As for the wrapped generator.
        """
        image = self.inner.draw(prompt, source, seed)
        anchor = self._anchor or source
        return image if anchor is None or source is None else match_colors(image, anchor)


class Restoring(GeneratorWrapper):
    """Wraps a generator. Every edit of a part gets the pixels of its source image outside of that part."""

    def __init__(self, generator: Generator) -> None:
        super().__init__(generator)
        self._drafts = Drafts()

    @property
    def identity(self) -> str:
        """Identity of the wrapped generator and of the method."""
        return f"{self.inner.identity} put-back/1"

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image and put back the pixels that the edit did not need to change.

        Raises:
            GeneratorError: As for the wrapped generator.
            Cancelled: As for the wrapped generator.
        """
        draft = self.inner.draw(prompt, source, seed)
        if source is None or asks_for_whole_image(prompt):
            return draft
        image = put_back(source, draft).image
        if image != draft:
            self._drafts.keep(image, draft)
        return image

    def draft_of(self, image: Picture) -> Picture | None:
        """Return what the wrapped generator made, if `image` was made of it by the latest calls."""
        return self._drafts.of(image)


class Drafts:
    """The drafts of the latest images. It can be used from several threads."""

    def __init__(self) -> None:
        self._drafts: OrderedDict[str, Picture] = OrderedDict()
        self._one_at_a_time = threading.Lock()

    def keep(self, image: Picture, draft: Picture) -> None:
        """Note the draft of an image."""
        with self._one_at_a_time:
            self._drafts[image.digest] = draft
            while len(self._drafts) > MAX_DRAFTS:
                self._drafts.popitem(last=False)

    def of(self, image: Picture) -> Picture | None:
        """Return the draft of an image."""
        with self._one_at_a_time:
            return self._drafts.get(image.digest)


def match_colors(image: Picture, target: Picture) -> Picture:
    """Return the image with its color shift relative to `target` undone.

    The same object is returned if the shift is negligible, or too large to be drift.
    """
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
