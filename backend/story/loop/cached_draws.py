"""Generator calls of the loop: cached, with failures as values, and several at a time if possible.

A generator with several workers makes the images of a step's candidates at the same time. They are started
together and fetched one after another, each under its own key. So a run on ten services has the same result
as a run on one, only faster. Leaving the context stops what is still being generated, and none of it is
stored.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

from PIL import Image

from ...core.errors import GeneratorError
from ...core.machine.counters import count
from ...core.pictures import Picture
from ...core.seams.adoption import returned
from ...core.seams.generator import Generator
from ...core.types import MAX_BATCH, DrawSettings, Fault, StepSettings
from ...core.types.cast import followed_by
from ..journal.store import DrawKey, DrawRecord, RunStore


class WantedDraw(NamedTuple):
    """One image to generate.

    `source=None` means text-to-image. `settings` are the step's own settings, including the reference
    images.
    """

    prompt: str
    source: Picture | None
    seed: int
    settings: StepSettings = StepSettings()


class DrawnFrom(NamedTuple):
    """What all attempts of a step share: the source image and the step's settings with their images."""

    source: Picture | None
    settings: StepSettings

    def wanted(self, prompt: str, seed: int) -> WantedDraw:
        """Return the call for one attempt of the step."""
        return WantedDraw(prompt, self.source, seed, self.settings)


class CachedDraws:
    """A generator with a cache of its images."""

    def __init__(self, generator: Generator, store: RunStore) -> None:
        self._generator = generator
        self._store = store
        self._begun: dict[DrawKey, Future[DrawRecord]] = {}

    def has_drawn(self, wanted: WantedDraw) -> bool:
        """Return whether the image is cached."""
        return self._store.drawn(self._draw_key(wanted)) is not None

    def draw(self, wanted: WantedDraw) -> tuple[DrawRecord, bool]:
        """Return the image, and whether it came from the cache.

        A failure of the generator is returned as the `error` of the record.

        Raises:
            Cancelled: The run was cancelled.
        """
        key = self._draw_key(wanted)
        remembered = self._store.drawn(key)
        if remembered is not None:
            count(draws_kept=1)
            self._keep_enhancement(wanted, remembered)
            return remembered, True
        begun = self._begun.pop(key, None)
        drawn = begun.result() if begun is not None else self._draw_now(key, wanted)
        self._store.keep_drawn(drawn)
        return drawn, False

    @contextmanager
    def parallel_draws(self, wanted: Sequence[WantedDraw]) -> Iterator[None]:
        """Generate several images at the same time within this context, if the generator has several workers.

        Call `draw` to get each of them. Images that were not fetched when the context ends are stopped and
        discarded.

        Args:
            wanted: The images that will be asked for, in this order.
        """
        at_once = self._generator.idle_workers if len(wanted) > 1 else 1
        several = wanted if at_once > 1 else ()
        new = {key: one for one in several if self._store.drawn(key := self._draw_key(one)) is None}
        if len(new) < 2:
            yield
            return
        over = threading.Event()
        generator = self._generator.stopped_by(over)
        pool = ThreadPoolExecutor(min(at_once, len(new)), thread_name_prefix="draws side by side")
        self._begun = {key: pool.submit(self._draw_now, key, one, generator) for key, one in new.items()}
        try:
            yield
        finally:
            over.set()
            pool.shutdown(wait=False, cancel_futures=True)
            self._begun = {}

    def _draw_key(self, wanted: WantedDraw) -> DrawKey:
        return DrawKey.of(self._generator.identity, *wanted)

    def _draw_now(self, key: DrawKey, wanted: WantedDraw, by: Generator | None = None) -> DrawRecord:
        count(draws=1)
        began = time.monotonic()
        generator = by or self._generator
        images: Sequence[Picture] = ()
        error = enhancement = None
        try:
            enhancement = generator.enhance(_prompt_for(generator, wanted), wanted.source is not None)
            images = self._images(wanted, generator)
        except GeneratorError as failure:
            if failure.lasting:
                raise
            error = Fault(where="generator", message=str(failure))
        seconds = time.monotonic() - began
        image = images[0] if images else None
        draft = generator.draft_of(image) if image else None
        return DrawRecord(
            key=key,
            image=image,
            more=tuple(images[1:]),
            error=error,
            seconds=seconds,
            enhancement=enhancement,
            draft=draft,
        )

    def _keep_enhancement(self, wanted: WantedDraw, drawn: DrawRecord) -> None:
        """Use a recorded enhancement for later attempts with the same prompt, so that none is asked twice."""
        if drawn.enhancement is not None:
            prompt = _prompt_for(self._generator, wanted)
            self._generator.keep_enhancement(prompt, wanted.source is not None, drawn.enhancement)

    def _images(self, wanted: WantedDraw, generator: Generator) -> Sequence[Picture]:
        prompt, settings = _prompt_for(generator, wanted), wanted.settings
        # Only a mask painted on a finished image comes to a generator without masks.
        mask = None if "mask" in generator.step_settings else settings.mask
        if mask:
            settings = settings.model_copy(update={"mask": None})
        if settings.of_draw:
            generator = generator.with_step_settings(settings)
        images = generator.draw_several(prompt, wanted.source, wanted.seed)
        if not 1 <= len(images) <= MAX_BATCH:
            raise GeneratorError(
                f"The generator returned {len(images)} images for one call; 1 to {MAX_BATCH} can be judged.",
                f"Set its batch size to {MAX_BATCH} or less.",
            )
        drawn = [
            Picture(one)
            if isinstance(one, Image.Image)
            else returned(one, Picture, "generator", "Return a PIL image from `draw`.")
            for one in images
        ]
        return [_inside(mask.picture, one, wanted.source) for one in drawn] if mask else drawn


def _inside(mask: Picture | None, drawn: Picture, source: Picture | None) -> Picture:
    """Return the generated image where the mask is white, and the source elsewhere."""
    if mask is None or source is None:
        return drawn
    inside, area = drawn.image.resize(source.size), mask.image.resize(source.size).convert("L")
    return Picture(Image.composite(inside, source.image, area))


def _prompt_for(generator: Generator, wanted: WantedDraw) -> str:
    """Return the prompt that the image model is given: with the cast, and what each of its images shows."""
    cast = wanted.settings.cast if isinstance(wanted.settings, DrawSettings) else None
    if cast is None:
        return wanted.prompt
    marks = generator.reference_marks(wanted.source is not None, len(cast.names))
    shown = [f"{mark} shows {name}." for mark, name in zip(marks, cast.names, strict=True)]
    return followed_by(wanted.prompt, " ".join([*([cast.text] if cast.text else []), *shown]))
