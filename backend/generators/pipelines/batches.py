"""Several images in one call of a diffusers pipeline, each with a prompt, a source and a seed of its own.

Decisions. A batch is not the single draws: kernels add in another order, so some pixels differ by 1 of 255
(in bfloat16 by more). A key of a journal or a cache does not say in which batch an image was made, so this is
a generator of its own, whose identity says "batched": what it draws is never taken for a single draw. Only
the training's redraws ask for it (training/reward/redraws), where images are scored and thrown away; a
story's loop and the image service draw one by one, and a journal knows single draws alone. Every image has
its own noise from its own seed, so its place in the batch, and what else is in it, change nothing but that
rounding. One call has one size, and for most reference models one source (siblings of a reinforcement's group
edit the same page), so draws are grouped by both. A batch is bounded by its pixels, and halved, for good,
when the memory does not suffice.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from ...errors import OutOfMemory
from ...pictures import Picture
from ..protocol import bounded_identity

MAX_PIXELS = 8 * 1024 * 1024
"""Pixels of the images of one call, at most: eight of a megapixel."""


class DrawsTogether(Protocol):
    """A generator that draws several images of one size in one call."""

    identity: str

    @property
    def modules(self) -> list[Any]: ...

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture: ...

    def area(self, source: Picture | None) -> int: ...

    def draw_together(
        self, prompts: Sequence[str], source: Picture | Sequence[Picture] | None, seeds: Sequence[int]
    ) -> list[Picture]: ...


class BatchedPipeline:
    """A pipeline that draws several images a call; `any_source`: edits of different sources of one size
    too."""

    def __init__(self, pipeline: DrawsTogether, any_source: bool) -> None:
        self._pipeline = pipeline
        self._any_source = any_source
        self._most_pixels = MAX_PIXELS
        self.identity = bounded_identity(f"{pipeline.identity} batched")

    @property
    def modules(self) -> list[Any]:
        """The torch modules of the pipelines, for who moves them between devices."""
        return self._pipeline.modules

    @property
    def most_pixels(self) -> int:
        """Pixels of the images of one call now; less after one for which there was no memory."""
        return self._most_pixels

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """One image, as the pipeline draws it alone. Raises GeneratorError, Cancelled."""
        return self._pipeline.draw(prompt, source, seed)

    def draw_many(
        self, prompts: Sequence[str], sources: Sequence[Picture | None], seeds: Sequence[int]
    ) -> list[Picture]:
        """The images of these draws in their order, each as `draw` gives it but for rounding. Raises
        GeneratorError, also OutOfMemory where one image alone is too much, and Cancelled."""
        drawn: dict[int, Picture] = {}
        together: dict[Hashable, list[int]] = {}
        for number, source in enumerate(sources):
            together.setdefault(self._kind_of(source), []).append(number)
        for numbers in together.values():
            left = list(numbers)
            while left:
                some = left[: self._fitting(sources[left[0]])]
                try:
                    images = self._together(
                        [prompts[at] for at in some],
                        [sources[at] for at in some],
                        [seeds[at] for at in some],
                    )
                except OutOfMemory:
                    if len(some) == 1:
                        raise
                    self._most_pixels = len(some) // 2 * self._pipeline.area(sources[left[0]])
                    continue
                drawn |= dict(zip(some, images, strict=True))
                left = left[len(some) :]
        return [drawn[number] for number in range(len(sources))]

    def _kind_of(self, source: Picture | None) -> Hashable:
        """What draws of one call have in common: their source, or its size where sources may differ."""
        if source is None:
            return None
        return source.size if self._any_source else source.digest

    def _fitting(self, source: Picture | None) -> int:
        return max(1, self._most_pixels // max(1, self._pipeline.area(source)))

    def _together(self, prompts: list[str], sources: list[Picture | None], seeds: list[int]) -> list[Picture]:
        if len(prompts) == 1:
            return [self._pipeline.draw(prompts[0], sources[0], seeds[0])]
        given = [source for source in sources if source is not None]
        shown = None if not given else given if self._any_source else given[0]
        return self._pipeline.draw_together(prompts, shown, seeds)
