"""The base class of image models: prompt, source image and seed in, one image out.

Everything else that affects the image (weights, size, sampler, steps, guidance...) belongs to the generator
and is named in `identity`. The tuple (identity, prompt, source, seed) therefore determines the image and can
be its cache key. What only some generators can do has a default here that says "cannot", so callers ask a
generator and not its type.
"""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ..errors import SettingsError
from ..pictures import Picture
from ..types import MAX_STEP_IMAGES, Enhancement, Plan, StepSettings
from .adoption import adopt, forwards

if TYPE_CHECKING:
    from typing_extensions import Self

CONNECT = "Choose a generator, or remove the prompt of every step from the plan."


class Generator(ABC):
    """Generates an image from a prompt, or edits a source image.

    Generators are thread-safe: each thread gets the image that it would have got alone. A generator with one
    model generates one image at a time.

    Attributes:
        interrupted: Called after every sampling step, or several times a second while a service works, by
            generators that can be stopped. They stop when it returns True.
    """

    interrupted: Callable[[], bool] | None = None

    @property
    @abstractmethod
    def identity(self) -> str:
        """Identity of everything that affects an image, apart from the arguments of `draw`.

        It is part of cache keys.
        """

    @abstractmethod
    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image. The same arguments give the same pixels.

        Args:
            prompt: What to generate, or how to edit the source image.
            source: Image to edit. None generates from the prompt alone.
            seed: Seed of the noise.

        Raises:
            DrawRefused: This prompt is never generated.
            GeneratorError: The generation failed.
            Cancelled: The generation was interrupted.
        """

    @property
    def repeatable(self) -> bool:
        """Whether the same arguments give the same pixels.

        Hosted models without seeds are not repeatable. Their images may be stored, but one image must not be
        reused for two attempts.
        """
        return True

    @property
    def draws_several(self) -> bool:
        """Whether `draw_several` may return several images, of which the critic chooses the best."""
        return False

    def draw_several(self, prompt: str, source: Picture | None, seed: int) -> tuple[Picture, ...]:
        """Generate 1 to MAX_BATCH images. The same arguments give the same pixels in the same order.

        Errors are those of `draw`.
        """
        return (self.draw(prompt, source, seed),)

    @property
    def draws_many(self) -> bool:
        """Whether `draw_many` is faster than single calls."""
        return False

    def draw_many(
        self, prompts: Sequence[str], sources: Sequence[Picture | None], seeds: Sequence[int]
    ) -> list[Picture]:
        """Generate an image per prompt with its source image and seed, in their order.

        Each is as `draw` would generate it up to rounding. Errors are those of `draw`.
        """
        return [self.draw(*one) for one in zip(prompts, sources, seeds, strict=True)]

    @property
    def modules(self) -> Sequence[Any]:
        """The torch modules of a local model, for code that moves them between devices."""
        return ()

    @property
    def draws_at_once(self) -> int:
        """Number of concurrent images that keeps all workers busy, at least 1."""
        return 1

    @property
    def idle_workers(self) -> int:
        """Number of images that would start immediately, at least 1.

        It is smaller than `draws_at_once`, which includes a queue: an image in a queue uses up its deadline
        there.
        """
        return 1

    def stopped_by(self, over: threading.Event) -> Self:
        """Return the same generator whose work ends with Cancelled once `over` is set, if it can."""
        return self

    @property
    def follows_anchor(self) -> bool:
        """Whether edits also depend on the story's first image, which the loop sets before every step.

        Such a generator can be used by one story at a time.
        """
        return False

    def set_anchor(self, anchor: Picture | None) -> None:  # noqa: B027 - a default
        """Set the first image: the request's, or else the first one generated. None before there is one."""

    def enhance(self, prompt: str, is_edit: bool) -> Enhancement | None:
        """Return what `draw` gives the image model for this prompt. None without a prompt enhancer.

        Raises:
            GeneratorError: The enhancer failed.
            Cancelled: The run was cancelled.
        """
        return None

    def keep_enhancement(  # noqa: B027 - a default
        self, prompt: str, is_edit: bool, enhancement: Enhancement
    ) -> None:
        """Use this enhancement for the prompt, because an earlier run recorded it."""

    def draft_of(self, image: Picture) -> Picture | None:
        """Return the model's own image of a corrected image of the latest calls. None: not corrected."""
        return None

    @property
    def step_settings(self) -> frozenset[str]:
        """Names of the supported StepSettings: negative, denoise, mask, reference, size, lora."""
        return frozenset()

    def with_step_settings(self, settings: StepSettings) -> Generator:
        """Return the same generator with these settings. Only those in `step_settings` are given.

        Raises:
            SettingsError: A value does not fit the model.
            GeneratorError: A LoRA cannot be loaded.
        """
        return self

    def lora_digest(self, name: str) -> str | None:
        """Return the digest of the content of a LoRA in the generator's LoRA folder. None without a folder.

        Raises:
            SettingsError: The folder does not have this file.
        """
        return None

    @property
    def max_reference_images(self) -> int:
        """Maximum number of images shown to the model in addition to the image it edits.

        These are the images of `DrawSettings.beside` and a step's reference image.
        """
        return 0

    @property
    def image_mark(self) -> str:
        """Notation of an image number in a prompt of the model."""
        return "Image {}"

    @property
    def own_references(self) -> int:
        """Number of reference images of its own, which come before those of a step."""
        return 0

    def reference_marks(self, edits: bool, count: int) -> list[str]:
        """Return how a prompt names the first images of `DrawSettings.beside`, in the model's notation.

        Args:
            edits: Whether the step edits a source image, which is image 1.
            count: Number of images.
        """
        first = 1 + edits + self.own_references
        return [self.image_mark.format(first + place) for place in range(count)]

    @property
    def draw_options(self) -> frozenset[str]:
        """Those of size, steps and guidance that `with_draw_options` supports."""
        return frozenset()

    def with_draw_options(
        self,
        size: tuple[int, int] | None = None,
        steps: int | None = None,
        guidance: float | None = None,
    ) -> Generator:
        """Return the same model with these options where they are not None, without opening it again.

        A service needs this, because each request may have other values. They become part of `identity`.

        Args:
            size: Width and height in pixels.
            steps: Sampling steps.
            guidance: Guidance scale.

        Raises:
            SettingsError: A value is not supported.
        """
        return self


def _parts_of(code: CodeType) -> Iterator[str]:
    """Yield what a function does, as texts that are the same in every process."""
    yield f"{code.co_code.hex()} {code.co_names}"
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _parts_of(value)
        else:
            yield repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


class FunctionGenerator(Generator):
    """Generates with a function `(prompt, source, seed)`; source and result are PIL images.

    Its images are cached under the function's name and code, but not under values that it reads elsewhere.
    """

    def __init__(self, function: FunctionType) -> None:
        digest = hashlib.blake2b("\n".join(_parts_of(function.__code__)).encode(), digest_size=8)
        self._function = function
        self._identity = f"function {function.__module__}.{function.__qualname__} {digest.hexdigest()}"

    @property
    def identity(self) -> str:
        """Name of the function, and a digest of its code."""
        return self._identity

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Call the function."""
        return self._function(prompt, source and source.image, seed)


@forwards(Generator, to="inner")
class GeneratorWrapper(Generator):
    """Base of generators that wrap another one: what the wrapped generator can do, the wrapper can do too.

    Subclasses say what they change in `prompt_for` and `finished`. All else is that of `inner`.
    """

    def __init__(self, inner: Generator) -> None:
        self.inner = adopt(inner, Generator)

    @property
    def identity(self) -> str:
        """Same as the wrapped generator."""
        return self.inner.identity

    def prompt_for(self, prompt: str, is_edit: bool) -> str:
        """Return what the wrapped generator gets for a prompt."""
        return prompt

    def finished(self, image: Picture, source: Picture | None, prompt: str) -> Picture:
        """Return what becomes of an image of the wrapped generator."""
        return image

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image with the wrapped generator. Errors are those of both."""
        given = self.prompt_for(prompt, source is not None)
        return self.finished(self.inner.draw(given, source, seed), source, prompt)

    def draw_several(self, prompt: str, source: Picture | None, seed: int) -> tuple[Picture, ...]:
        """Generate images with the wrapped generator. Errors are those of both."""
        images = self.inner.draw_several(self.prompt_for(prompt, source is not None), source, seed)
        return tuple(self.finished(image, source, prompt) for image in images)

    def draw_many(
        self, prompts: Sequence[str], sources: Sequence[Picture | None], seeds: Sequence[int]
    ) -> list[Picture]:
        """Generate images with the wrapped generator. Errors are those of both."""
        asked = list(zip(prompts, sources, strict=True))
        given = [self.prompt_for(prompt, source is not None) for prompt, source in asked]
        images = self.inner.draw_many(given, sources, seeds)
        return [
            self.finished(image, source, prompt)
            for image, (prompt, source) in zip(images, asked, strict=True)
        ]

    def stopped_by(self, over: threading.Event) -> Self:
        """Return this wrapper around the wrapped generator that `over` stops."""
        return self._around(self.inner.stopped_by(over))

    def with_step_settings(self, settings: StepSettings) -> Self:
        """Return this wrapper around the wrapped generator with these settings."""
        return self._around(self.inner.with_step_settings(settings))

    def with_draw_options(
        self,
        size: tuple[int, int] | None = None,
        steps: int | None = None,
        guidance: float | None = None,
    ) -> Self:
        """Return this wrapper around the wrapped generator with these options."""
        return self._around(self.inner.with_draw_options(size, steps, guidance))

    def _around(self, generator: Generator) -> Self:
        """Return a copy of this wrapper around another generator."""
        other = copy(self)
        other.inner = generator
        return other


class NoGenerator(Generator):
    """The generator of a run whose plan has only text-only steps."""

    @property
    def identity(self) -> str:
        """Empty, as that of a critic that a run does not have."""
        return ""

    @property
    def max_reference_images(self) -> int:
        """The maximum that a step can have, so no setting is rejected for an image that is never made."""
        return MAX_STEP_IMAGES - 1

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Raise an error, since the run does not have an image model.

        Raises:
            SettingsError: Always.
        """
        raise SettingsError("The run has no generator.", CONNECT)


def check_text_only(plan: Plan) -> None:
    """Check that a plan can be carried out without a generator.

    Raises:
        SettingsError: A step has a prompt. The message names the steps.
    """
    numbers = [step.number for step in plan.steps if step.prompt]
    if numbers:
        named = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
        some = "Step" if len(numbers) == 1 else "Steps"
        verb = "generates an image" if len(numbers) == 1 else "generate images"
        raise SettingsError(f"{some} {named} {verb}, but the run has no generator.", CONNECT)
