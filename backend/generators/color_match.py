"""Wraps a generator so that its edits keep the colors, or the untouched pixels, of an earlier image.

An edit model shifts all colors a little at every step (a yellow tint, lost contrast), which adds up over a
story. The shift is measured where both images agree (drift.py) and undone by a gain and offset per channel.
Only a small shift is treated as drift. A large shift, or images with nothing in common, is the change that
the step asked for and is kept.

`put back` does more: all pixels of the source image return where the edit did not need to change them
(drift/put_back.py). It is skipped for prompts that ask to change light, weather, style or view.
"""

from __future__ import annotations

import threading

from ..drift.measure import block_pixels, color_shift, unchanged
from ..drift.pictures import asks_for_whole_image, put_back
from ..errors import SettingsError
from ..machine.byte_lru import ByteLRU
from ..pictures import Picture
from .protocol import Generator
from .wrapper import GeneratorWrapper

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


class CorrectsEdits(GeneratorWrapper):
    """Wraps a generator. Its edits are corrected after they were generated. Subclasses add `corrected`."""

    def corrected(self, image: Picture, source: Picture, prompt: str) -> Picture:
        """Return the corrected edit of a source image."""
        raise NotImplementedError

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image, and correct it if it is an edit.

        Raises:
            GeneratorError: As for the wrapped generator.
            Cancelled: As for the wrapped generator.
        """
        image = self.inner.draw(prompt, source, seed)
        return image if source is None else self.corrected(image, source, prompt)


class ColorMatched(CorrectsEdits):
    """Wraps a generator. Every edit gets the colors of its source image."""

    @property
    def identity(self) -> str:
        """Identity of the wrapped generator and of the color match."""
        return f"{self.inner.identity} color-match=source/1"

    def corrected(self, image: Picture, source: Picture, prompt: str) -> Picture:
        """Return the edit without the color shift relative to its source image."""
        return match_colors(image, source)


class AnchorMatched(CorrectsEdits):
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

    def corrected(self, image: Picture, source: Picture, prompt: str) -> Picture:
        """Return the edit without the color shift relative to the anchor."""
        return match_colors(image, self._anchor or source)


class Restoring(CorrectsEdits):
    """Wraps a generator. Every edit of a part gets the pixels of its source image outside of that part.

    Copies of the wrapper share its drafts.
    """

    def __init__(self, generator: Generator) -> None:
        super().__init__(generator)
        self._drafts: ByteLRU[str, Picture] = ByteLRU(MAX_DRAFTS, lambda _: 1)
        self._one_at_a_time = threading.Lock()

    @property
    def identity(self) -> str:
        """Identity of the wrapped generator and of the method."""
        return f"{self.inner.identity} put-back/1"

    def corrected(self, image: Picture, source: Picture, prompt: str) -> Picture:
        """Return the edit with the pixels put back, unless its prompt asks to change the whole image."""
        if asks_for_whole_image(prompt):
            return image
        restored = put_back(source, image).image
        if restored != image:
            with self._one_at_a_time:
                self._drafts.put(restored.digest, image)
        return restored

    def draft_of(self, image: Picture) -> Picture | None:
        """Return what the wrapped generator made, if `image` was made of it by the latest calls."""
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
