"""The protocol between the app and the workers: requests, results and the state of the workers.

Everything that crosses it is plain and picklable (pixels, numbers, names), because the other side may be a
machine of a cluster. The app reads, limits and admits a request before, so a pool only hands
requests to its workers. A request whose worker is lost or runs out of memory is retried once. The
caller may cancel a request, which removes it from the queue or interrupts it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from ..backend.errors import InterleaveError
from ..backend.pictures import Picture

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
        waited_seconds: Time in the queue.
        batch: Number of images in the same call.
        ignored: Settings of the request that the model does not support.
    """

    image: bytes
    size: tuple[int, int]
    seed: int
    worker: str = ""
    gpu: int = 0
    draw_seconds: float = 0.0
    encode_seconds: float = 0.0
    waited_seconds: float = 0.0
    batch: int = 1
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelInfo:
    """A served model.

    Attributes:
        name: Name in requests.
        kind: Kind of the generator.
        identity: Identity of the model. Empty until a worker has loaded it.
        takes: Supported fields among size, steps, guidance, negative, mask and reference.
        batches: Whether it can generate several images per call.
        most_images: Maximum number of images it accepts.
        port: Port on which it is the default model.
    """

    name: str
    kind: str
    identity: str = ""
    takes: tuple[str, ...] = ()
    batches: bool = False
    most_images: int = 1
    port: int | None = None


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
