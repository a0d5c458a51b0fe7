"""Generates several images in one call of a diffusers pipeline, each with its own prompt, source and seed.

A batch is not bit-identical to single images: kernels sum in another order, so some pixels differ by 1 of 255
(by more in bfloat16). Keys of journals and caches do not contain the batch of an image. Batching is therefore
a generator of its own, with "batched" in its identity, whose images are never reused as single images. Only
the redraws in training (training/reward/redraws) use it, where images are scored and discarded. The loop of a
story and the image service generate one image at a time.

Each image has its own noise from its own seed, so its position in the batch, and the other images, affect
only the rounding. All images of a call have one size and, for most reference models, one source image (the
members of a GRPO group edit the same image), so requests are grouped by both. The number of pixels in a batch
is limited, and halved permanently when memory runs out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from ...errors import OutOfMemory
from ...pictures import Picture
from ..protocol import bounded_identity

MAX_PIXELS = 8 * 1024 * 1024
"""Maximum number of pixels in one call: eight images of a megapixel."""


class DrawsTogether(Protocol):
    """A generator that generates several images of one size in one call."""

    identity: str

    @property
    def modules(self) -> list[Any]:
        """The torch modules of the pipelines."""
        ...

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate one image."""
        ...

    def area(self, source: Picture | None) -> int:
        """Return the number of pixels of an image generated with this source image."""
        ...

    def draw_together(
        self, prompts: Sequence[str], source: Picture | Sequence[Picture] | None, seeds: Sequence[int]
    ) -> list[Picture]:
        """Generate one image per prompt and seed in one call."""
        ...


class BatchedPipeline:
    """A pipeline that generates several images per call.

    `any_source` allows different source images of one size in a call.
    """

    def __init__(self, pipeline: DrawsTogether, any_source: bool) -> None:
        self._pipeline = pipeline
        self._any_source = any_source
        self._most_pixels = MAX_PIXELS
        self.identity = bounded_identity(f"{pipeline.identity} batched")

    @property
    def modules(self) -> list[Any]:
        """The torch modules of the pipelines, for code that moves them between devices."""
        return self._pipeline.modules

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate one image, as the pipeline does alone.

        Raises:
            GeneratorError: The generation failed.
            Cancelled: The generation was stopped.
        """
        return self._pipeline.draw(prompt, source, seed)

    def draw_many(
        self, prompts: Sequence[str], sources: Sequence[Picture | None], seeds: Sequence[int]
    ) -> list[Picture]:
        """Generate several images, each as `draw` would except for rounding.

        Returns:
            The images, in the order of the prompts.

        Raises:
            OutOfMemory: Memory does not suffice for a single image.
            GeneratorError: The generation failed.
            Cancelled: The generation was stopped.
        """
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
        """Return what images of one call must share: their source, or only its size if sources may differ."""
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
