"""The seam between the app and whoever draws: what is asked for, what comes back, and who is at work.

Decision: everything that crosses it is plain and picklable (pixels, numbers, names), because the far side is
a child process or a machine of a cluster. The app has read, bounded and admitted a request before it comes
here, so a pool only hands requests to its workers. A pool that loses a worker in the middle of a draw tries
it once on another one; whoever waits may cancel, and the request then leaves the queue or is interrupted.
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
"""Both without loss."""
WorkerPhase: TypeAlias = Literal["loading", "alive", "dead"]


class ServiceError(InterleaveError):
    """A request that got no image. `status` is its HTTP status, `retry_after` the seconds after which a
    client may ask again, where that is of use."""

    status = 500

    def __init__(self, message: str, hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, hint)
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.hint, self.retry_after)


class Refused(ServiceError):
    """The model's own word on a request that it cannot draw; another worker would say the same."""

    status = 200


class WorkerLost(ServiceError):
    """The worker crashed or had no memory left, and so did the one that tried it again."""

    status = 500


class Busy(ServiceError):
    """There was no room in the queue, no worker is alive, or the service is about to end."""

    status = 503


class DrawTimeout(ServiceError):
    """The image was not drawn before its deadline."""

    status = 504


class UnknownModel(ServiceError):
    """No model of this name is served."""

    status = 404


@dataclass(frozen=True)
class ImageRequest:
    """One image to draw. `sources` are edited (none: from text), the first one is the one that is changed;
    `mask` is white where it may change. `size` in pixels, `steps` and `guidance` None: the model's own.
    `client` is who asked, for logs and limits; it shapes no pixel."""

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
        """A digest of everything that determines the bytes of the answer, within one service."""
        mask = self.mask.digest if self.mask else None
        sources = [source.digest for source in self.sources]
        shape = (self.size, self.steps, self.guidance, self.format)
        parts = (self.model, self.prompt, self.negative, self.seed, mask, *shape, sources)
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=20).hexdigest()

    @property
    def batch_key(self) -> tuple[object, ...] | None:
        """Requests with the same one may be drawn in one call; None: this one is drawn alone."""
        if self.mask is not None or len(self.sources) > 1:
            return None
        return self.model, self.size, self.steps, self.guidance, self.negative, bool(self.sources)


@dataclass(frozen=True)
class GeneratedImage:
    """A drawn image as a file, with how it came about; `worker` names the process and its device, `batch` how
    many were drawn in the same call, `ignored` the settings of the request that this model does not have."""

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
    """What is known of a model that is served. `identity` is empty until a worker has loaded it; `takes` are
    those of size, steps, guidance, negative, mask and reference that a request can set, `most_images` how
    many it can be shown."""

    name: str
    kind: str
    identity: str = ""
    takes: tuple[str, ...] = ()
    batches: bool = False
    most_images: int = 1
    port: int | None = None


@dataclass(frozen=True)
class WorkerState:
    """A worker as `/status` shows it; `reason` says why it is dead or was started again."""

    name: str
    model: str
    device: str
    phase: WorkerPhase
    drawn: int = 0
    restarts: int = 0
    reason: str = ""
    seconds_to_restart: float | None = None


class Pool(Protocol):
    """Draws. All of it is called in the event loop of the app."""

    async def start(self) -> None:
        """Start the workers; returns before their models are loaded. Raises InterleaveError."""
        ...

    async def draw(self, request: ImageRequest, deadline: float) -> GeneratedImage:
        """The image, until `deadline` (of time.monotonic()). Cancelling takes the request out of the queue,
        or interrupts its draw. Raises Refused, WorkerLost, Busy, DrawTimeout, UnknownModel."""
        ...

    def models(self) -> Sequence[ModelInfo]:
        """The models, the one that is drawn with by default first."""
        ...

    def workers(self) -> Sequence[WorkerState]:
        """All workers, also those that are dead."""
        ...

    def queued(self, model: str) -> int:
        """Requests for this model that no worker has begun with."""
        ...

    def capacity(self, model: str) -> int:
        """Images of this model that can be drawn at the same moment: workers alive times their batch."""
        ...

    async def close(self) -> None:
        """End the workers; what they still draw is lost."""
        ...
