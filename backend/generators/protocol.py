"""The seam to an image model: prompt, source image and seed in, one image out.

Decision: everything else that shapes the image (weights, size, sampler, steps, guidance...) is the
generator's own and named in `identity`, so that (identity, prompt, source, seed) determines the image and can
be its cache key.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from ..pictures import Picture
from ..types import StepSettings
from ..values import bounded_identity, step_identity

__all__ = [
    "DrawsAtOnce",
    "DrawsInBatches",
    "DrawsMany",
    "DrawsSeveral",
    "FollowsAnchor",
    "Generator",
    "TakesDrawOptions",
    "TakesStepSettings",
    "bounded_identity",
    "idle_workers",
    "is_repeatable",
    "max_reference_images",
    "step_identity",
    "stopped_by",
]


@runtime_checkable
class Generator(Protocol):
    """Draws from a prompt alone (`source` None: text-to-image) or edits the source image.

    Safe to call from several threads: each gets the image that it would have got alone. Who has one model
    draws for one at a time.
    """

    @property
    def identity(self) -> str:
        """Name of everything that shapes an image besides the arguments of `draw`; part of cache keys."""
        ...

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Return the image; same arguments, same pixels. Raises GeneratorError, or Cancelled when
        interrupted."""
        ...


@runtime_checkable
class DrawsSeveral(Protocol):
    """A generator that may give several images for one draw, of which the critic finds the best."""

    @property
    def draws_several(self) -> bool:
        """Whether it does; if not, `draw` is asked."""
        ...

    def draw_several(self, prompt: str, source: Picture | None, seed: int) -> tuple[Picture, ...]:
        """Return 1 to MAX_BATCH images; same arguments, same pixels in the same order. Raises as
        `Generator.draw` does."""
        ...


@runtime_checkable
class FollowsAnchor(Protocol):
    """A generator whose edits also depend on the story's first image: the loop names it before every step.
    One such generator draws one story at a time."""

    def set_anchor(self, anchor: Picture | None) -> None:
        """The request's first image, else the first one drawn, None before there is any."""
        ...


@runtime_checkable
class TakesStepSettings(Protocol):
    """A generator of single steps with a `negative`, `denoise`, `mask` or `reference` of their own.

    One whose model is shown several images has `max_reference_images`, too: how many it takes in addition to
    the image that it edits, a step's reference among them."""

    @property
    def step_settings(self) -> frozenset[str]:
        """Names of the StepSettings that it can draw with."""
        ...

    def with_step_settings(self, settings: StepSettings) -> Generator:
        """The same generator, drawing with these; only the ones of `step_settings` are given."""
        ...


@runtime_checkable
class TakesDrawOptions(Protocol):
    """A generator that can draw single images with a `size`, `steps` or `guidance` of their own, without
    being opened again: what a service needs whose every request may ask for another one."""

    @property
    def draw_options(self) -> frozenset[str]:
        """Those of size, steps and guidance that it can draw with."""
        ...

    def with_draw_options(
        self,
        size: tuple[int, int] | None = None,
        steps: int | None = None,
        guidance: float | None = None,
    ) -> Generator:
        """The same model, drawing with these where they are not None: width and height in pixels, sampling
        steps, guidance scale. Its `identity` says so. Raises SettingsError for what it cannot draw with."""
        ...


@runtime_checkable
class DrawsAtOnce(Protocol):
    """A generator behind which several work: asked from so many threads, it draws as many images at a
    time."""

    @property
    def draws_at_once(self) -> int:
        """Draws that keep all of them at work, at least 1."""
        ...

    # If it has them: `idle_workers`, how many draws would be begun at once, and `stopped_by(over)`, the same
    # generator, whose draws end once `over` is set.


@runtime_checkable
class DrawsMany(Protocol):
    """A generator that draws many images in one call, each exactly as `draw` would or as near as its batching
    allows."""

    def draw_many(
        self, prompts: Sequence[str], sources: Sequence[Picture | None], seeds: Sequence[int]
    ) -> list[Picture]:
        """An image for each prompt with its source and seed, in their order. Raises as `Generator.draw`."""
        ...


@runtime_checkable
class DrawsInBatches(Protocol):
    """A generator that can draw many images in one call under another identity: a batch is not the single
    draws to the last bit, and who keeps images by an identity must know which they are."""

    def in_batches(self) -> Generator:
        """The same model drawing in batches (DrawsMany), or this generator itself if it cannot."""
        ...


def is_repeatable(generator: Generator) -> bool:
    """Whether the same arguments give the same pixels. Hosted models without seeds do not: what they drew may
    be kept, but one image must not stand for two draws."""
    return bool(getattr(generator, "repeatable", True))


def idle_workers(generator: object) -> int:
    """Draws that a generator would begin at once, 1 for one that draws them one after another. Fewer than
    `draws_at_once`, which keeps a queue: a draw in a queue spends its deadline there."""
    return max(1, int(getattr(generator, "idle_workers", 1)))


def stopped_by(generator: Any, over: threading.Event) -> Any:
    """The same generator, whose draws end with Cancelled once `over` is set, where it can be stopped so."""
    stopping = getattr(generator, "stopped_by", None)
    return generator if stopping is None else stopping(over)


def max_reference_images(generator: object) -> int:
    """Images that a generator's model can be shown beside the one that it edits, 0 for none: those of
    `DrawSettings.beside` and a step's reference. Who can be shown any draws with them by
    `with_step_settings`."""
    return max(0, int(getattr(generator, "max_reference_images", 0)))
