"""Generators around other generators: a prompt enhancer in front, corrected colors and pixels behind.

An edit model shifts all colors a little at every step (a yellow tint, lost contrast), which adds up over a
story. The shift is measured where both images agree (drift) and undone by a gain and offset per channel. Only
a small shift is treated as drift. A large shift, or images with nothing in common, is the change that the
step asked for and is kept.

`put back` does more: all pixels of the source image return where the edit did not need to change them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ...core.drift import block_pixels, color_shift, unchanged
from ...core.errors import AnswerError, ChatError, GeneratorError, SettingsError
from ...core.machine.byte_lru import ByteLRU
from ...core.pictures import Picture
from ...core.seams.generator import Generator, GeneratorWrapper
from ...core.types import Enhancement
from ...core.types.values import bounded_identity
from ..put_back.pictures import asks_for_whole_image, put_back

MAX_CACHED = 1_000
"""Maximum number of enhancements that are kept in RAM."""
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

    def finished(self, image: Picture, source: Picture | None, prompt: str) -> Picture:
        """Correct an image if it is an edit."""
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
    """Wraps a generator. Every edit gets the colors of the anchor, which the loop sets before each step."""

    def __init__(self, generator: Generator) -> None:
        super().__init__(generator)
        self._anchor: Picture | None = None

    @property
    def identity(self) -> str:
        """Identity of the wrapped generator and of the anchor, which affects the image too."""
        anchor = f":{self._anchor.digest}" if self._anchor else ""
        return f"{self.inner.identity} color-match=first/1{anchor}"

    @property
    def follows_anchor(self) -> bool:
        """True."""
        return True

    def set_anchor(self, anchor: Picture | None) -> None:
        """Set the image whose colors the next edits get. None keeps the colors unchanged."""
        self._anchor = anchor
        self.inner.set_anchor(anchor)

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


class EnhancedGenerator(GeneratorWrapper):
    """Wraps a generator so that a prompt enhancer rewrites every prompt before the image model gets it.

    Image models are trained on long captions, and their makers recommend an enhancer. Only the image model
    sees the enhanced prompt: the critic judges against the plan's prompt, and its refined prompt is enhanced
    again. Copies of the wrapper share its cache.

    Args:
        generator: The generator.
        rewrite: Returns the enhancement of a prompt, and gets whether the prompt edits an image
            (`PromptEnhancer.enhance`).
        enhancer: Identity of the enhancer.
    """

    def __init__(
        self, generator: Generator, rewrite: Callable[[str, bool], Enhancement], enhancer: str
    ) -> None:
        super().__init__(generator)
        self._rewrite, self._enhancer = rewrite, enhancer
        self._cached: ByteLRU[tuple[str, bool], Enhancement] = ByteLRU(MAX_CACHED, lambda _: 1)
        self._one_at_a_time = threading.Lock()

    @property
    def identity(self) -> str:
        """Identity of the wrapped generator and of the enhancer."""
        return bounded_identity(f"{self.inner.identity} enhancer={self._enhancer}")

    def enhance(self, prompt: str, is_edit: bool) -> Enhancement:
        """Return the enhancement of a prompt. The enhancer is asked once per prompt.

        Raises:
            GeneratorError: The enhancer failed.
            Cancelled: The run was cancelled.
        """
        with self._one_at_a_time:
            found = self._cached.get((prompt, is_edit))
            if found is None:
                try:
                    found = self._rewrite(prompt, is_edit)
                except (AnswerError, ChatError) as error:
                    message = f"The prompt enhancer failed: {error.message}"
                    raise error.told_as(GeneratorError, message) from error
                self._cached.put((prompt, is_edit), found)
            return found

    def keep_enhancement(self, prompt: str, is_edit: bool, enhancement: Enhancement) -> None:
        """Use this enhancement for the prompt."""
        with self._one_at_a_time:
            self._cached.put((prompt, is_edit), enhancement)

    def prompt_for(self, prompt: str, is_edit: bool) -> str:
        """Return the enhanced prompt. Raises GeneratorError and Cancelled as `enhance` does."""
        return self.enhance(prompt, is_edit).prompt
