"""What the app and the workers share: requests, results, the pool's interface, and a loaded model.

Everything that crosses the interface is plain and picklable (pixels, numbers, names), because the other side
may be a machine of a cluster. The app reads, limits and admits a request before, so a pool only hands
requests to its workers. A request whose worker is lost or runs out of memory is retried once. The caller may
cancel a request, which removes it from the queue or interrupts it.

A model is opened as on the command line, so every generator can be served. Settings that a model does not
support are ignored and listed in the answer, because clients of the published services send them to every
model. An unsupported mask or second image is rejected, since the image would be a different one. An error
that the model reports about a request is returned to the client. Every other error is a failure of the
worker, and the request is retried.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from ..backend.core.errors import (
    Cancelled,
    GeneratorError,
    InterleaveError,
    PictureError,
    SettingsError,
    boundary,
    is_out_of_memory,
)
from ..backend.core.pictures import Picture
from ..backend.core.seams.adoption import adopt
from ..backend.core.seams.generator import Generator
from ..backend.core.types import MAX_STEP_IMAGES, DrawSettings, StepImage, StepSettings
from ..backend.models.generators import GENERATORS, open_generator
from .settings import ModelSettings

ImageFormat: TypeAlias = Literal["png", "webp"]
"""Both are lossless."""
WorkerPhase: TypeAlias = Literal["loading", "alive", "dead"]


class ServiceError(InterleaveError):
    """A request that got no image.

    `status` is its HTTP status, and `retry_after` the seconds after which a retry makes sense.
    """

    status = 500

    def __init__(self, message: str, hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, hint)
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.hint, self.retry_after)


class Refused(ServiceError):
    """The model refuses the request. Another worker would refuse it too."""

    status = 200


class WorkerLost(ServiceError):
    """The worker crashed or ran out of memory, and so did the worker of the retry."""

    status = 500


class Busy(ServiceError):
    """The queue is full, no worker is alive, or the service is shutting down."""

    status = 503


class DrawTimeout(ServiceError):
    """The image was not generated before its deadline."""

    status = 504

    @classmethod
    def of(cls, model: str, loaded: bool, seconds: float) -> DrawTimeout:
        """Return the error of a request whose model was loaded in time, or not."""
        late = "The image was not generated" if loaded else f"The model {model!r} was not loaded"
        return cls(f"{late} within {seconds:g} s.")


class UnknownModel(ServiceError):
    """No model of this name is served."""

    status = 404


@dataclass(frozen=True)
class ImageRequest:
    """A request for one image.

    Attributes:
        model: Name of the model.
        prompt: The prompt.
        seed: Seed of the noise.
        negative: Negative prompt.
        sources: Images to edit. The first one is changed. None of them: generate from text.
        mask: White where the image may change.
        size: Width and height in pixels. None uses the model's own.
        steps: Sampling steps. None uses the model's own.
        guidance: Guidance scale. None uses the model's own.
        format: Format of the file.
        client: Address of the client, for logs and limits. It does not affect the image.
    """

    model: str
    prompt: str
    seed: int
    negative: str | None = None
    sources: tuple[Picture, ...] = ()
    mask: Picture | None = None
    size: tuple[int, int] | None = None
    steps: int | None = None
    guidance: float | None = None
    format: ImageFormat = "png"
    client: str = ""

    @property
    def key(self) -> str:
        """A digest of everything that determines the answer within one service."""
        mask = self.mask.digest if self.mask else None
        sources = [source.digest for source in self.sources]
        shape = (self.size, self.steps, self.guidance, self.format)
        parts = (self.model, self.prompt, self.negative, self.seed, mask, *shape, sources)
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=20).hexdigest()

    @property
    def batch_key(self) -> tuple[object, ...] | None:
        """Requests with equal keys may share a call. None: this request is generated alone."""
        if self.mask is not None or len(self.sources) > 1:
            return None
        return self.model, self.size, self.steps, self.guidance, self.negative, bool(self.sources)


@dataclass(frozen=True)
class GeneratedImage:
    """A generated image as a file.

    Attributes:
        image: Content of the file.
        size: Width and height in pixels.
        seed: Seed of the noise.
        worker: Name of the process and its device.
        gpu: Number of the GPU.
        draw_seconds: Duration of the generation.
        encode_seconds: Duration of encoding the file.
        ignored: Settings of the request that the model does not support.
    """

    image: bytes
    size: tuple[int, int]
    seed: int
    worker: str = ""
    gpu: int = 0
    draw_seconds: float = 0.0
    encode_seconds: float = 0.0
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelInfo:
    """A served model.

    Attributes:
        name: Name in requests.
        identity: Identity of the model. Empty until a worker has loaded it.
        takes: Supported fields among size, steps, guidance, negative, mask and reference.
        batches: Whether it can generate several images per call.
        most_images: Maximum number of images it accepts.
    """

    name: str
    identity: str = ""
    takes: tuple[str, ...] = ()
    batches: bool = False
    most_images: int = 1


@dataclass(frozen=True)
class WorkerState:
    """A worker as shown by `/status`. `reason` explains why it is dead or was restarted."""

    name: str
    model: str
    device: str
    phase: WorkerPhase
    drawn: int = 0
    restarts: int = 0
    reason: str = ""
    seconds_to_restart: float | None = None


class Pool(Protocol):
    """Generates images. All methods are called in the event loop of the app."""

    async def start(self) -> None:
        """Start the workers. Returns before their models are loaded.

        Raises:
            InterleaveError: The workers cannot be started.
        """
        ...

    async def draw(self, request: ImageRequest, deadline: float) -> GeneratedImage:
        """Return the image of a request. Cancelling removes it from the queue, or interrupts it.

        Args:
            request: The request.
            deadline: Latest time, of time.monotonic().

        Raises:
            Refused: The model refuses the request.
            WorkerLost: The worker crashed, and the one of the retry too.
            Busy: No worker is alive.
            DrawTimeout: The deadline passed.
            UnknownModel: The model is not served.
        """
        ...

    def models(self) -> Sequence[ModelInfo]:
        """Return the models, the default model first."""
        ...

    def workers(self) -> Sequence[WorkerState]:
        """Return all workers, including dead ones."""
        ...

    def queued(self, model: str) -> int:
        """Return the number of requests for a model that wait for a worker."""
        ...

    def capacity(self, model: str) -> int:
        """Return how many images of a model can be generated at once: live workers times batch size."""
        ...

    async def close(self) -> None:
        """End the workers. Unfinished images are lost."""
        ...


DrawOutcome = GeneratedImage | ServiceError


class Drawer:
    """Generates with one model. Used by one thread at a time.

    `worker` and `gpu` are added to its results.
    """

    def __init__(self, generator: Generator, model: ModelSettings, worker: str = "", gpu: int = 0) -> None:
        self._generator, self._worker, self._gpu = adopt(generator, Generator), worker, gpu
        generator = self._generator
        self.info = ModelInfo(
            name=model.name,
            identity=generator.identity,
            takes=tuple(
                sorted(generator.draw_options | generator.step_settings & {"negative", "mask", "reference"})
            ),
            batches=generator.draws_many,
            most_images=min(MAX_STEP_IMAGES, 1 + generator.max_reference_images),
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
        elif device not in ("auto", "cpu"):
            raise SettingsError(f"The model {model.name!r} does not run on {device!r}.", "Use --devices cpu.")
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
            self._answer(request, picture, seconds, ignored)
            for request, picture in zip(requests, pictures, strict=True)
        ]

    def _answer(
        self, request: ImageRequest, picture: Picture, seconds: float, ignored: tuple[str, ...]
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
