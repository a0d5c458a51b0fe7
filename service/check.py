"""Checks that a service answers like the published ones: health, text-to-image, edit, repeatability.

All requests bypass the service's cache (Cache-Control: no-cache), since a cached answer always equals itself.
A service that can only edit, or only generate from text, is fine: a route that it does not offer is reported
and not counted as a failure. Nothing of the service itself is imported, so any service can be checked.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..backend.core.errors import GeneratorError, InterleaveError, PictureError
from ..backend.core.pictures import MAX_PIXELS, Picture
from ..backend.core.remote.call import RemoteCall
from ..backend.core.remote.server import RemoteServer


class ServiceReply(BaseModel):
    """The part of an answer of /edit and /generate that is evaluated. Other keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    success: bool = False
    image: str | None = None
    edited_image: str | None = None
    error: str | None = None

    @property
    def picture(self) -> str | None:
        """The image in base64, from either of the published field names."""
        return self.edited_image or self.image


def photograph_like(size: tuple[int, int], seed: int = 0) -> Picture:
    """Return an image that compresses like a photograph: soft shapes under fine noise.

    The same size (width, height) and seed give the same image.
    """
    import numpy

    width, height = size
    random = numpy.random.default_rng(seed)
    coarse = random.integers(0, 256, (max(2, height // 64), max(2, width // 64), 3), dtype=numpy.uint8)
    soft = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
    noise = random.normal(0.0, 3.0, (height, width, 3))
    return Picture(Image.fromarray(numpy.clip(numpy.asarray(soft) + noise, 0, 255).astype(numpy.uint8)))


def body_of(prompt: str, seed: int, source: str | None, **settings: Any) -> dict[str, Any]:
    """Return the JSON body of an /edit request.

    Args:
        prompt: The prompt.
        seed: The seed.
        source: Source image in base64. None generates from text.
        **settings: Other fields. None leaves a field to the service.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    return {"image": source, "prompt": prompt, "seed": seed} | given


MAX_ANSWER_BYTES = 128 * 1024 * 1024
MAX_HEALTH_BYTES = 1024 * 1024
HEALTH_SECONDS = 10.0
NO_CACHE = {"Cache-Control": "no-cache"}
SOURCE_SEED = 1
NEEDS_ANOTHER_ROUTE = (400, 404, 405, 422, 501)


class Health(BaseModel):
    """The part of GET /health that is shown. Other keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    status: str = Field(default="", max_length=200)
    identity: str | None = Field(default=None, max_length=1000)
    models: Any = None
    workers: Any = None
    gpu_manager_ready: bool | None = None


@dataclass(frozen=True)
class CheckResult:
    """One line of the check.

    Attributes:
        name: What was tested.
        right: Whether it passed. None if the service does not offer it.
        seconds: Duration.
        said: Text to show.
    """

    name: str
    right: bool | None
    seconds: float
    said: str


@dataclass(frozen=True)
class CheckSettings:
    """What the check requests. `size` is (width, height) of the edited and the requested images."""

    prompt: str = "a red boat on a calm sea"
    size: tuple[int, int] = (512, 512)
    seed: int = 7
    model: str | None = None
    timeout: float = 300.0


class NoImageInReply(Exception):
    """The service answered, but not with an image."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"HTTP {status}: {said}" if status != 200 else said)
        self.status = status


class ServiceCheck:
    """Checks the service at `url`, with the API key `key`. Requests are sent one after another."""

    def __init__(self, url: str, key: str | None, asked: CheckSettings) -> None:
        self._server = RemoteServer(url.rstrip("/"), key, GeneratorError)
        self._server.headers = NO_CACHE
        self._asked = asked

    def findings(self) -> Iterator[CheckResult]:
        """Yield the results as they are found. Ends early if the service does not answer."""
        health = self._health()
        yield health
        if health.right is False:
            return
        source = photograph_like(self._asked.size, SOURCE_SEED)
        kinds = (("text", None), ("edit", source))
        found = [self._drawn(name, image) for name, image in kinds]
        for finding, _ in found:
            yield finding
        pair = next(
            ((kinds[at][1], first) for at, (_, first) in reversed(list(enumerate(found))) if first), None
        )
        if pair is None:
            yield CheckResult(
                "draws", False, 0.0, "The service generated neither from text nor from an image."
            )
            return
        yield self._equal_twice(*pair)

    def _health(self) -> CheckResult:
        begun = time.monotonic()
        try:
            status, body = self._ask("GET", "/health", MAX_HEALTH_BYTES, HEALTH_SECONDS)
        except InterleaveError as error:
            return CheckResult("health", False, time.monotonic() - begun, str(error))
        took = time.monotonic() - begun
        if status == 404:
            return CheckResult("health", None, took, "The service has no route /health.")
        try:
            health = Health.model_validate_json(body)
        except ValidationError:
            return CheckResult("health", False, took, f"HTTP {status}: {self._server.quote(body)}")
        reported = [health.status, health.identity and f"identity {health.identity}"]
        reported += [
            f"{name} {value}"
            for name, value in (("models", health.models), ("workers", health.workers))
            if value
        ]
        ready = status == 200 and health.gpu_manager_ready is not False
        return CheckResult(
            "health", ready, took, self._server.quote(", ".join(part for part in reported if part))
        )

    def _drawn(self, name: str, source: Picture | None) -> tuple[CheckResult, Picture | None]:
        begun = time.monotonic()
        try:
            picture = self._draw(source)
        except NoImageInReply as refusal:
            one_way = refusal.status in NEEDS_ANOTHER_ROUTE
            what = "Not offered" if one_way else "Failed"
            return CheckResult(
                name, None if one_way else False, time.monotonic() - begun, f"{what}: {refusal}"
            ), None
        except InterleaveError as error:
            return CheckResult(name, False, time.monotonic() - begun, str(error)), None
        took = time.monotonic() - begun
        return CheckResult(
            name, True, took, f"{picture.size[0]}x{picture.size[1]}, {picture.digest[:12]}"
        ), picture

    def _equal_twice(self, source: Picture | None, first: Picture) -> CheckResult:
        begun = time.monotonic()
        try:
            again = self._draw(source)
        except (NoImageInReply, InterleaveError) as error:
            return CheckResult("again", False, time.monotonic() - begun, str(error))
        equal = again == first
        said = "identical pixels" if equal else f"different pixels for the same seed ({again.digest[:12]})"
        return CheckResult("again", equal, time.monotonic() - begun, said)

    def _draw(self, source: Picture | None) -> Picture:
        """Return one image from /edit, or from /generate if /edit needs a source image.

        Raises:
            NoImageInReply: The service did not return an image.
            GeneratorError: The service does not answer, or its image is invalid.
        """
        asked, encoded = self._asked, source.base64_png() if source else None
        width, height = asked.size
        body = body_of(asked.prompt, asked.seed, encoded, width=width, height=height, model=asked.model)
        status, data = self._ask("POST", "/edit", MAX_ANSWER_BYTES, asked.timeout, body)
        if source is None and status in NEEDS_ANOTHER_ROUTE:
            refused = status, data
            status, data = self._ask("POST", "/generate", MAX_ANSWER_BYTES, asked.timeout, body)
            if status in (404, 405):
                status, data = refused
        try:
            drawn = ServiceReply.model_validate_json(data)
        except ValidationError as error:
            raise NoImageInReply(status, self._server.quote(data)) from error
        if status != 200 or not drawn.success or not drawn.picture:
            raise NoImageInReply(status, self._server.quote(drawn.error or data))
        try:
            return Picture.from_base64(drawn.picture, "The image", MAX_PIXELS)
        except PictureError as error:
            raise GeneratorError(error.message, error.hint) from error

    def _ask(
        self, method: str, path: str, limit: int, seconds: float, body: dict[str, Any] | None = None
    ) -> tuple[int, bytes]:
        """Return status and body of an answer.

        Raises:
            GeneratorError: The service does not answer.
        """
        import httpx

        call = RemoteCall(seconds)
        where = f"{method} {self._server.url}{path}"
        late = GeneratorError(f"{where} did not answer within {seconds:g} s.")

        def ask(_: Any) -> tuple[int, bytes]:
            with self._server.faults():
                try:
                    with self._server.answer(call, method, path, seconds, body) as response:
                        return response.status_code, self._server.whole(response, limit)
                except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
                    said = self._server.quote(f"{type(error).__name__}: {error}")
                    raise GeneratorError(
                        f"{where} failed: {said}.", "Check that the service is running."
                    ) from error

        return call.carry_out(ask, None, late)
