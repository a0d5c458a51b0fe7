"""A loaded model that processes requests, in a thread of the service or a replica of a cluster.

A model is opened as on the command line, so every generator can be served. Settings that a model does not
support are ignored and listed in the answer, because clients of the published services send them to every
model. An unsupported mask or second image is rejected, since the image would be a different one. An error
that the model reports about a request is returned to the client. Every other error is a failure of the
worker, and the request is retried.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..backend.errors import (
    Cancelled,
    GeneratorError,
    InterleaveError,
    PictureError,
    SettingsError,
    boundary,
    is_out_of_memory,
)
from ..backend.generators import GENERATORS, Generator, open_generator
from ..backend.generators.generator import as_generator
from ..backend.pictures import Picture
from ..backend.types import MAX_STEP_IMAGES, DrawSettings, StepImage, StepSettings
from .pool import (
    DrawTimeout,
    GeneratedImage,
    ImageFormat,
    ImageRequest,
    ModelInfo,
    Refused,
    ServiceError,
    WorkerLost,
)
from .settings import ModelSettings

DrawOutcome = GeneratedImage | ServiceError


class Drawer:
    """Generates with one model. Used by one thread at a time.

    `worker` and `gpu` are added to its results.
    """

    def __init__(self, generator: Generator, model: ModelSettings, worker: str = "", gpu: int = 0) -> None:
        self._generator, self._worker, self._gpu = as_generator(generator), worker, gpu
        generator = self._generator
        self.info = ModelInfo(
            name=model.name,
            kind=model.generator.partition(":")[0],
            identity=generator.identity,
            takes=tuple(
                sorted(generator.draw_options | generator.step_settings & {"negative", "mask", "reference"})
            ),
            batches=generator.draws_many,
            most_images=min(MAX_STEP_IMAGES, 1 + generator.max_reference_images),
            port=model.port,
        )

    @classmethod
    def open(cls, model: ModelSettings, device: str, worker: str = "", gpu: int = 0) -> Drawer:
        """Load a model onto a device. `auto` lets the generator choose.

        Raises:
            SettingsError: The model's settings are invalid.
            GeneratorError: The model cannot be loaded.
        """
        options: dict[str, Any] = dict(model.options)
        taken = GENERATORS.option_names(model.generator)
        if device != "auto" and "device" in taken:
            options["device"] = device
        if "mask_later" in taken:
            options.setdefault("mask_later", True)
        with boundary(GeneratorError, f"Cannot load the model {model.name!r}"):
            return cls(open_generator(model.generator, **options), model, worker, gpu)

    def draw(
        self, requests: Sequence[ImageRequest], cancelled: Callable[[], bool] = lambda: False
    ) -> list[DrawOutcome]:
        """Return an image, or an error, for each request. All requests share one `batch_key`.

        Args:
            requests: The requests.
            cancelled: Called after every sampling step, by models that can be stopped.
        """
        self._generator.interrupted = cancelled
        try:
            return self._drawn(requests)
        except InterleaveError as error:
            if isinstance(error, Cancelled):
                return [DrawTimeout("The generation was stopped.") for _ in requests]
            if len(requests) > 1:
                # One refused prompt, or a batch that is too large, must not cost the other requests their
                # images.
                return [outcome for request in requests for outcome in self.draw([request], cancelled)]
            return [self._fault(error)]

    def _drawn(self, requests: Sequence[ImageRequest]) -> list[DrawOutcome]:
        started = time.monotonic()
        first = requests[0]
        generator, ignored = self._set_to(first)
        with boundary(GeneratorError, f"The model {first.model!r} failed"):
            if len(requests) > 1 and generator.draws_many:
                prompts, seeds = [one.prompt for one in requests], [one.seed for one in requests]
                pictures = generator.draw_many(prompts, [_source(one) for one in requests], seeds)
            else:
                pictures = [generator.draw(one.prompt, _source(one), one.seed) for one in requests]
        if len(pictures) != len(requests) or not all(isinstance(one, Picture) for one in pictures):
            raise GeneratorError(
                f"The model {first.model!r} did not return the {len(requests)} requested images."
            )
        seconds = time.monotonic() - started
        return [
            self._answer(request, picture, seconds, len(requests), ignored)
            for request, picture in zip(requests, pictures, strict=True)
        ]

    def _answer(
        self, request: ImageRequest, picture: Picture, seconds: float, batch: int, ignored: tuple[str, ...]
    ) -> GeneratedImage:
        started = time.monotonic()
        file = encoded(picture, request.format)
        return GeneratedImage(
            image=file,
            size=picture.size,
            seed=request.seed,
            worker=self._worker,
            gpu=self._gpu,
            draw_seconds=seconds,
            encode_seconds=time.monotonic() - started,
            batch=batch,
            ignored=ignored,
        )

    def _set_to(self, request: ImageRequest) -> tuple[Generator, tuple[str, ...]]:
        """Return the generator with the request's settings, and the names of unsupported settings."""
        takes = self.info.takes
        given: dict[str, Any] = {
            "size": request.size,
            "steps": request.steps,
            "guidance": request.guidance,
            "negative": request.negative or None,
        }
        given = {name: value for name, value in given.items() if value is not None}
        ignored = tuple(sorted(name for name in given if name not in takes))
        generator = self._generator
        drawing = {name: value for name, value in given.items() if name in takes and name != "negative"}
        if drawing:
            generator = generator.with_draw_options(**drawing)
        if (settings := self._step_settings(request)) != StepSettings():
            generator = generator.with_step_settings(settings)
        return generator, ignored

    def _step_settings(self, request: ImageRequest) -> StepSettings:
        takes, given = self.info.takes, {}
        if request.negative and "negative" in takes:
            given["negative"] = request.negative
        if request.mask is not None:
            if "mask" not in takes:
                raise Refused(f"The model {request.model!r} does not support masks.")
            given["mask"] = StepImage(name="mask", picture=request.mask)
        if len(request.sources) > self.info.most_images:
            raise Refused(
                f"The model {request.model!r} accepts at most {self.info.most_images} image(s), "
                f"not {len(request.sources)}."
            )
        if beside := request.sources[1:]:
            return DrawSettings(**given, beside=beside)
        return StepSettings(**given)

    def _fault(self, error: InterleaveError) -> ServiceError:
        if isinstance(error, ServiceError):
            return error
        if is_out_of_memory(error):
            _free_memory()
            return WorkerLost(f"{self._worker or 'The worker'} ran out of memory: {error.message}")
        cause = error.__cause__
        if (
            isinstance(error, (SettingsError, PictureError))
            or cause is None
            or isinstance(cause, InterleaveError)
        ):
            return Refused(error.message, error.hint)
        return WorkerLost(error.message, error.hint)


OpenDrawer: TypeAlias = Callable[[ModelSettings, str, str, int], Drawer]
"""Loads a model onto a device for a worker with a name and a GPU number. Ray pickles it."""


def encoded(picture: Picture, kind: ImageFormat) -> bytes:
    """Return the image as a lossless file."""
    if kind == "png":
        return picture.png()
    buffer = io.BytesIO()
    picture.image.save(buffer, "WEBP", lossless=True, quality=0, method=0)
    return buffer.getvalue()


def _source(request: ImageRequest) -> Picture | None:
    return request.sources[0] if request.sources else None


def _free_memory() -> None:
    import sys

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
