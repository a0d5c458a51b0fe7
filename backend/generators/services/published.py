"""Draws with image services over HTTP: POST /edit with base64 images, as the published generator services
speak.

Decision: an answer is read through a model that ignores what it does not know, and a `success: false` is the
service's word and not tried again. A key comes from the environment only, because the identity, which names
services without an identity of their own by their addresses, is written into every run's folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from copy import copy
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import GeneratorError, PictureError
from ...pictures import Picture
from ...remote.addresses import Addresses
from ...remote.endpoints import Endpoint
from ...remote.server import MAX_SHOWN, RemoteServer
from ...types import MAX_TEXT, StepSettings
from ..protocol import bounded_identity
from .asking import ServiceQuery
from .client import DEADLINE, Reach, ServiceClient, check_values, request_digest
from .makers import Maker
from .options import DrawOptions, read_options

MAX_ANSWER_BYTES = 128 * 1024 * 1024
MAX_WORKERS = 64


class EditAnswer(BaseModel):
    """What POST /edit answers (FORMATS: HTTP generator service); further keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    success: bool
    edited_image: str | None = None
    seed: int | None = None
    error: str | None = None
    ignored: Any = None


class HealthAnswer(BaseModel):
    """What GET /health may say about the model behind the service; services name it under different keys."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    identity: str | None = Field(default=None, max_length=MAX_TEXT)
    model: str | None = Field(default=None, max_length=1000)
    model_id: str | None = Field(default=None, max_length=1000)
    model_name: str | None = Field(default=None, max_length=1000)
    workers: Any = None

    @property
    def name(self) -> str:
        """The most telling of the names, empty if there is none."""
        return self.identity or self.model or self.model_id or self.model_name or ""

    @property
    def alive(self) -> int:
        """Images that it draws at once, 1 if it does not say."""
        alive = self.workers.get("alive") if isinstance(self.workers, dict) else self.workers
        return min(max(alive, 1), MAX_WORKERS) if isinstance(alive, int) else 1


OPTIONS = DrawOptions
"""Whose fields `open` takes as options."""


def open(
    argument: str,
    *,
    deadline: float = DEADLINE,
    interrupted: Callable[[], bool] | None = None,
    **given: Any,
) -> HttpGenerator:
    """Connect to the services at `URL1,URL2,@FILE`, each `http://HOST:PORT`, `https://...` or
    `//HOST:PORT`; `deadline` in seconds for an image, all tries together. `interrupted` is asked several
    times a second from the first question on, `given`: fields of DrawOptions.

    Raises SettingsError for an unusable URL or option and for services that differ, GeneratorError if none
    answers, Cancelled.
    """
    wanted = read_options("http", DrawOptions, given)
    width, height = wanted.sides or (None, None)
    options = {
        "guidance_scale": wanted.guidance,
        "num_inference_steps": wanted.steps,
        "width": width,
        "height": height,
        "negative_prompt": wanted.negative,
    }
    set_ones = {key: value for key, value in options.items() if value is not None}
    addresses = Addresses(argument, wanted.service_port)
    return HttpGenerator(Reach(addresses, deadline, interrupted, wanted.mixed), set_ones)


class HttpGenerator(ServiceClient):
    """A client of services that hold one model. Raises GeneratorError, Cancelled."""

    greeting = "/health"

    def __init__(self, reach: Reach, options: dict[str, Any]) -> None:
        self._options = options
        super().__init__(reach)
        given = " ".join(f"{name}={value!r}" for name, value in sorted(options.items()))
        who = self._makers.named(reach.addresses.now())
        self.identity = bounded_identity(" ".join(part for part in ("http", who, given) if part))

    @property
    def step_settings(self) -> frozenset[str]:
        """`negative`; a service is not asked how much of a source it is to redraw."""
        return frozenset({"negative"})

    def with_step_settings(self, settings: StepSettings) -> HttpGenerator:
        """The same services, asked with these settings."""
        other = copy(self)
        other._options = self._options | {"negative_prompt": settings.negative}
        return other

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Have the image drawn (`source` None: from text) and return it. Raises GeneratorError or
        Cancelled."""
        body = {
            "image": source.base64_png() if source else None,
            "prompt": prompt,
            "seed": seed,
            **self._options,
        }
        question = ServiceQuery("POST", "/edit", MAX_ANSWER_BYTES, body)
        width, height = source.size if source else (0, 0)
        most = self._most_pixels(self._options.get("width") or width, self._options.get("height") or height)

        def read(server: RemoteServer, data: bytes) -> Picture | GeneratorError:
            picture, ignored = _picture_in(data, server, most)
            self._unused.show(server, ignored)
            return picture

        return self._draw(question, request_digest(prompt, [source] if source else [], seed), read)

    def _read_greeting(self, endpoint: Endpoint, said: bytes) -> None:
        try:
            check_values(said, f"{endpoint.url}{self.greeting}")
            health = HealthAnswer.model_validate_json(said)
        except (GeneratorError, ValidationError):
            maker = Maker("")  # a service need not say which model it holds
        else:
            maker = Maker(_quoted(endpoint.server, health.name), exact=bool(health.identity))
            endpoint.workers = health.alive
        self._makers.add(endpoint.url, maker)


def _quoted(server: RemoteServer, name: str) -> str:
    """A name as it may be shown; a long one with the digest of the whole."""
    if len(name) <= MAX_SHOWN:
        return server.quote(name)
    return f"{server.quote(name)} sha256={hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _picture_in(data: bytes, server: RemoteServer, most: int) -> tuple[Picture | GeneratorError, Any]:
    """The image of an answer or why the service did not draw it, and what it says of options that were not
    used. Raises GeneratorError for what is no answer."""
    check_values(data, f"{server.url}/edit")
    try:
        answer = EditAnswer.model_validate_json(data)
    except ValidationError as error:
        raise GeneratorError(
            f"{server.url}/edit answered something else than an edit "
            f"({error.errors(include_url=False)[0]['msg']}): {server.quote(data)}",
            "Is this an image service of this kind?",
        ) from error
    del data
    if not answer.success:
        reason = server.quote(answer.error or "it does not say why")
        return GeneratorError(f"{server.url} could not draw: {reason}."), None
    if not answer.edited_image:
        raise GeneratorError(f"{server.url} reported success, but sent no image.")
    try:
        picture = Picture.from_base64(answer.edited_image, f"The image from {server.url}", most)
    except PictureError as error:
        raise GeneratorError(error.message, error.hint) from error
    return picture, answer.ignored
