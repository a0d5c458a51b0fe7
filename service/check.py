"""Checks that a service answers like the published ones: health, text-to-image, edit, repeatability.

All requests bypass the service's cache (Cache-Control: no-cache), since a cached answer always equals itself.
Requests are sent as by the generator `http:URL`, so any service with /edit can be checked. One that can only
edit, or only generate from text, is fine: the other request is reported as not offered, and no failure.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from ..backend.core.errors import GeneratorError, InterleaveError
from ..backend.core.pictures import MAX_PIXELS, Picture
from ..backend.core.remote.balanced import Unanswered
from ..backend.core.remote.call import RemoteCall
from ..backend.core.remote.server import RemoteServer
from ..backend.models.generators.http_service import EditAnswer
from ..backend.models.generators.service_client import (
    MAX_ANSWER_BYTES,
    MAX_GREETING_BYTES,
    ServiceQuery,
    ServiceRefused,
    asked,
    decoded,
    late_error,
    read_answer,
)

HEALTH_SECONDS = 10.0
PROMPT, SEED = "a red boat on a calm sea", 7
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

    size: tuple[int, int] = (512, 512)
    model: str | None = None
    timeout: float = 300.0


class ServiceCheck:
    """Checks the service at `url`, with the API key `key`. Requests are sent one after another."""

    def __init__(self, url: str, key: str | None, settings: CheckSettings) -> None:
        self._server = RemoteServer(url.rstrip("/"), key, GeneratorError)
        self._server.headers = {"Cache-Control": "no-cache"}
        self._settings = settings

    def findings(self) -> Iterator[CheckResult]:
        """Yield the results as they are found. Ends early if the service does not answer."""
        health = self._health()
        yield health
        if health.right is False:
            return
        gradient = Picture(Image.linear_gradient("L").convert("RGB").resize(self._settings.size))
        first: tuple[Picture | None, Picture] | None = None
        for name, source in (("text", None), ("edit", gradient)):
            found, picture = self._drawn(name, source)
            yield found
            first = first if picture is None else (source, picture)
        if first is None:
            yield CheckResult("draws", False, 0.0, "The service generated no image.")
            return
        found, again = self._drawn("again", first[0])
        if again is None:
            yield CheckResult("again", False, found.seconds, found.said)
        else:
            said = "identical pixels" if again == first[1] else "different pixels for the same seed"
            yield CheckResult("again", again == first[1], found.seconds, f"{said} ({again.digest[:12]})")

    def _health(self) -> CheckResult:
        begun = time.monotonic()
        try:
            body = self._ask(ServiceQuery("GET", "/health", MAX_GREETING_BYTES), HEALTH_SECONDS)
            health = read_answer(Health, body, f"{self._server.url}/health", self._server, "its health")
        except ServiceRefused as error:
            missing = None if error.status == 404 else False
            return CheckResult("health", missing, time.monotonic() - begun, str(error))
        except InterleaveError as error:
            return CheckResult("health", False, time.monotonic() - begun, str(error))
        named = {"identity": health.identity, "models": health.models, "workers": health.workers}
        said = ", ".join([health.status, *(f"{name} {value}" for name, value in named.items() if value)])
        ready = health.gpu_manager_ready is not False
        return CheckResult("health", ready, time.monotonic() - begun, self._server.quote(said))

    def _drawn(self, name: str, source: Picture | None) -> tuple[CheckResult, Picture | None]:
        """Return the result of generating an image, and the image."""
        begun = time.monotonic()
        try:
            picture = self._draw(source)
        except ServiceRefused as error:
            one_way = error.status in NEEDS_ANOTHER_ROUTE
            said = f"{'Not offered' if one_way else 'Failed'}: {error.message}"
            return CheckResult(name, None if one_way else False, time.monotonic() - begun, said), None
        except InterleaveError as error:
            return CheckResult(name, False, time.monotonic() - begun, str(error)), None
        said = f"{picture.size[0]}x{picture.size[1]}, {picture.digest[:12]}"
        return CheckResult(name, True, time.monotonic() - begun, said), picture

    def _draw(self, source: Picture | None) -> Picture:
        """Return one image of /edit.

        Raises:
            ServiceRefused: The service rejected the request.
            GeneratorError: The service does not answer, or its image is invalid.
        """
        settings = self._settings
        width, height = settings.size
        body = {
            "image": source.base64_png() if source else None,
            "prompt": PROMPT,
            "seed": SEED,
            "width": width,
            "height": height,
            **({"model": settings.model} if settings.model else {}),
        }
        data = self._ask(ServiceQuery("POST", "/edit", MAX_ANSWER_BYTES, body), settings.timeout)
        drawn = read_answer(EditAnswer, data, f"{self._server.url}/edit", self._server, "an image")
        if not drawn.success or not drawn.edited_image:
            raise GeneratorError(self._server.quote(drawn.error or data))
        return decoded(drawn.edited_image, self._server, MAX_PIXELS)

    def _ask(self, question: ServiceQuery, seconds: float) -> bytes:
        """Return the body of an answer.

        Raises:
            ServiceRefused: The service rejected the request.
            GeneratorError: The service does not answer.
        """
        call = RemoteCall(seconds)
        late = late_error(f"{question.method} {self._server.url}{question.path}", seconds)
        try:
            return call.carry_out(lambda _: asked(self._server, call, question, seconds), None, late)
        except Unanswered as error:
            raise error.error from None
