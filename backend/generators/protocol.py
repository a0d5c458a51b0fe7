"""The protocol of image models: prompt, source image and seed in, one image out.

Everything else that affects the image (weights, size, sampler, steps, guidance...) belongs to the generator
and is named in `identity`. The tuple (identity, prompt, source, seed) therefore determines the image and can
be its cache key.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from ..pictures import Picture
from ..types import Enhancement, StepSettings, step_identity
from ..values import bounded_identity

__all__ = [
    "IMAGE_MARK",
    "DrawsAtOnce",
    "DrawsInBatches",
    "DrawsMany",
    "DrawsSeveral",
    "EnhancesPrompts",
    "FindsLoras",
    "FollowsAnchor",
    "Generator",
    "KeepsDrafts",
    "TakesDrawOptions",
    "TakesStepSettings",
    "bounded_identity",
    "idle_workers",
    "is_repeatable",
    "max_reference_images",
    "reference_marks",
    "step_identity",
    "stopped_by",
]

IMAGE_MARK = "Image {}"
"""Default notation of an image number in a prompt."""


@runtime_checkable
class Generator(Protocol):
    """Generates an image from a prompt, or edits a source image.

    Generators are thread-safe: each thread gets the image that it would have got alone. A generator with one
    model generates one image at a time.
    """

    @property
    def identity(self) -> str:
        """Identity of everything that affects an image, apart from the arguments of `draw`.

        It is part of cache keys.
        """
        ...

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image. The same arguments give the same pixels.

        Args:
            prompt: What to generate, or how to edit the source image.
            source: Image to edit. None generates from the prompt alone.
            seed: Seed of the noise.

        Raises:
            GeneratorError: The generation failed.
            Cancelled: The generation was interrupted.
        """
        ...


@runtime_checkable
class DrawsSeveral(Protocol):
    """A generator that may return several images per call, of which the critic chooses the best."""

    @property
    def draws_several(self) -> bool:
        """Whether it does. If not, `draw` is called."""
        ...

    def draw_several(self, prompt: str, source: Picture | None, seed: int) -> tuple[Picture, ...]:
        """Generate 1 to MAX_BATCH images. The same arguments give the same pixels in the same order.

        Raises:
            GeneratorError: The generation failed.
            Cancelled: The generation was interrupted.
        """
        ...


@runtime_checkable
class FollowsAnchor(Protocol):
    """A generator whose edits also depend on the story's first image, which the loop sets before every step.

    Such a generator can be used by one story at a time.
    """

    def set_anchor(self, anchor: Picture | None) -> None:
        """Set the first image: the request's, or else the first one generated. None before there is one."""
        ...


@runtime_checkable
class EnhancesPrompts(Protocol):
    """A generator whose prompts a prompt enhancer may rewrite before the image model gets them."""

    def enhance(self, prompt: str, is_edit: bool) -> Enhancement | None:
        """Return what `draw` gives the image model for this prompt. None without an enhancer.

        Raises:
            GeneratorError: The enhancer failed.
            Cancelled: The run was cancelled.
        """
        ...

    def keep_enhancement(self, prompt: str, is_edit: bool, enhancement: Enhancement) -> None:
        """Use this enhancement for the prompt, because an earlier run recorded it."""
        ...


@runtime_checkable
class KeepsDrafts(Protocol):
    """A generator that corrects its model's images, and knows what the model made."""

    def draft_of(self, image: Picture) -> Picture | None:
        """Return the model's own image of an image of the latest calls. None: it was not corrected."""
        ...


@runtime_checkable
class TakesStepSettings(Protocol):
    """A generator that supports a step's own `negative`, `denoise`, `mask`, `reference`, `size` or `lora`.

    If its model accepts several images, it also has `max_reference_images`: their maximum number in addition
    to the image it edits, including a step's reference image.
    """

    @property
    def step_settings(self) -> frozenset[str]:
        """Names of the StepSettings that it supports."""
        ...

    def with_step_settings(self, settings: StepSettings) -> Generator:
        """Return the same generator with these settings. Only those in `step_settings` are given.

        Raises:
            SettingsError: A value does not fit the model.
        """
        ...


@runtime_checkable
class FindsLoras(Protocol):
    """A generator that applies the LoRA of a step, if `lora` is in its `step_settings`."""

    def lora_digest(self, name: str) -> str:
        """Return the digest of the content of a LoRA in the generator's LoRA folder.

        Raises:
            SettingsError: The folder does not have this file.
        """
        ...


@runtime_checkable
class TakesDrawOptions(Protocol):
    """A generator that supports `size`, `steps` or `guidance` per image, without being opened again.

    A service needs this, because each request may have other values.
    """

    @property
    def draw_options(self) -> frozenset[str]:
        """Those of size, steps and guidance that it supports."""
        ...

    def with_draw_options(
        self,
        size: tuple[int, int] | None = None,
        steps: int | None = None,
        guidance: float | None = None,
    ) -> Generator:
        """Return the same model with these options where they are not None.

        They become part of its `identity`.

        Args:
            size: Width and height in pixels.
            steps: Sampling steps.
            guidance: Guidance scale.

        Raises:
            SettingsError: A value is not supported.
        """
        ...


@runtime_checkable
class DrawsAtOnce(Protocol):
    """A generator with several workers, which generates one image per calling thread at a time."""

    @property
    def draws_at_once(self) -> int:
        """Number of concurrent images that keeps all workers busy, at least 1."""
        ...

    # Optional members: `idle_workers`, the number of images that would start immediately, and
    # `stopped_by(over)`, the same generator, whose work ends once `over` is set.


@runtime_checkable
class DrawsMany(Protocol):
    """A generator that generates many images in one call, each as `draw` would up to rounding."""

    def draw_many(
        self, prompts: Sequence[str], sources: Sequence[Picture | None], seeds: Sequence[int]
    ) -> list[Picture]:
        """Generate an image per prompt with its source image and seed, in their order.

        Raises:
            GeneratorError: The generation failed.
            Cancelled: The generation was interrupted.
        """
        ...


@runtime_checkable
class DrawsInBatches(Protocol):
    """A generator that can generate many images per call under another identity.

    A batch is not bit-identical to single images, so code that stores images by identity must distinguish
    them.
    """

    def in_batches(self) -> Generator:
        """Return the same model generating in batches (DrawsMany), or this generator if it cannot."""
        ...


def is_repeatable(generator: Generator) -> bool:
    """Return whether the same arguments give the same pixels.

    Hosted models without seeds are not repeatable. Their images may be stored, but one image must not be
    reused for two attempts.
    """
    return bool(getattr(generator, "repeatable", True))


def idle_workers(generator: object) -> int:
    """Return the number of images that a generator would start immediately, at least 1.

    It is smaller than `draws_at_once`, which includes a queue: an image in a queue uses up its deadline
    there.
    """
    return max(1, int(getattr(generator, "idle_workers", 1)))


def stopped_by(generator: Any, over: threading.Event) -> Any:
    """Return the same generator whose work ends with Cancelled once `over` is set, if it supports that."""
    stopping = getattr(generator, "stopped_by", None)
    return generator if stopping is None else stopping(over)


def max_reference_images(generator: object) -> int:
    """Return the number of images that a model accepts in addition to the image it edits, or 0.

    These are the images of `DrawSettings.beside` and a step's reference image, passed by
    `with_step_settings`.
    """
    return max(0, int(getattr(generator, "max_reference_images", 0)))


def reference_marks(generator: object, edits: bool, count: int) -> list[str]:
    """Return how a prompt names the first images of `DrawSettings.beside`, in the model's notation.

    A generator may have `image_mark`, the notation with `{}` for the number (default: "Image {}"), and
    `own_references`, the number of reference images of its own that come before them.

    Args:
        generator: The generator.
        edits: Whether the step edits a source image, which is image 1.
        count: Number of images.
    """
    mark = str(getattr(generator, "image_mark", IMAGE_MARK))
    first = 1 + edits + int(getattr(generator, "own_references", 0))
    return [mark.format(first + place) for place in range(count)]
