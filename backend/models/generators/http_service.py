"""Generates with image services over HTTP: POST /edit with base64 images, like the published services.

An answer is parsed with a model that ignores unknown keys. `success: false` is the decision of the service
and is not retried. The API key is read only from the environment. The identity of a service without an
identity of its own contains its address and is written into every run folder, so an address must not contain
a key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from copy import copy
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...core.errors import GeneratorError
from ...core.pictures import Picture
from ...core.remote.addresses import Addresses
from ...core.remote.balanced import Endpoint
from ...core.remote.server import MAX_SHOWN, RemoteServer
from ...core.types import MAX_TEXT, StepSettings
from ...core.types.values import bounded_identity, read_options
from .service_client import (
    DEADLINE,
    MAX_ANSWER_BYTES,
    DrawOptions,
    Maker,
    Reach,
    ServiceClient,
    ServiceQuery,
    check_values,
    decoded,
    read_answer,
    request_digest,
)

MAX_WORKERS = 64


class EditAnswer(BaseModel):
    """The answer of POST /edit (`docs/reference/file-formats.md`). Other keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    success: bool
    edited_image: str | None = None
    seed: int | None = None
    error: str | None = None
    ignored: Any = None


class HealthAnswer(BaseModel):
    """What GET /health may report about a model. Services use different keys for its name."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    identity: str | None = Field(default=None, max_length=MAX_TEXT)
    model: str | None = Field(default=None, max_length=1000)
    model_id: str | None = Field(default=None, max_length=1000)
    model_name: str | None = Field(default=None, max_length=1000)
    workers: Any = None

    @property
    def name(self) -> str:
        """The most specific of the names, or an empty string."""
        return self.identity or self.model or self.model_id or self.model_name or ""

    @property
    def alive(self) -> int:
        """Number of images generated concurrently, 1 if not reported."""
        alive = self.workers.get("alive") if isinstance(self.workers, dict) else self.workers
        return min(max(alive, 1), MAX_WORKERS) if isinstance(alive, int) else 1


OPTIONS = DrawOptions
"""`open` accepts the fields of this class as options."""


def open(
    argument: str,
    *,
    deadline: float = DEADLINE,
    interrupted: Callable[[], bool] | None = None,
    **given: Any,
) -> HttpGenerator:
    """Connect to the services `URL1,URL2,@FILE`.

    Args:
        argument: URLs of the form `http://HOST:PORT`, `https://...` or `//HOST:PORT`, or files that list
            them.
        deadline: Seconds for an image, including all retries.
        interrupted: Called several times a second, from the first request on. Requests stop when it returns
            True.
        **given: Options, see DrawOptions.

    Raises:
        SettingsError: A URL or an option is invalid, or the services have different models.
        GeneratorError: No service answers.
        Cancelled: `interrupted` returned True.
    """
    wanted = read_options("Generator 'http'", DrawOptions, given)
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
    """A client of services with one model."""

    greeting = "/health"

    def __init__(self, reach: Reach, options: dict[str, Any]) -> None:
        self._options = options
        super().__init__(reach)
        given = " ".join(f"{name}={value!r}" for name, value in sorted(options.items()))
        who = self._makers.named(reach.addresses.now())
        self._identity = bounded_identity(" ".join(part for part in ("http", who, given) if part))

    @property
    def step_settings(self) -> frozenset[str]:
        """`negative` and `size`. The protocol has no denoising strength."""
        return frozenset({"negative", "size"})

    def with_step_settings(self, settings: StepSettings) -> HttpGenerator:
        """Return a client of the same services with these settings."""
        other = copy(self)
        width, height = settings.sides or (None, None)
        own = {"negative_prompt": settings.negative, "width": width, "height": height}
        other._options = self._options | {name: one for name, one in own.items() if one is not None}
        return other

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Request an image and return it.

        Args:
            prompt: What to generate, or how to edit the source image.
            source: Image to edit. None generates from text alone.
            seed: Seed of the noise.

        Raises:
            GeneratorError: The generation failed.
            Cancelled: The generation was interrupted.
        """
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
            self._log_unused(server, ignored)
            return picture

        return self._draw(question, request_digest(prompt, [source] if source else [], seed), read)

    def _read_greeting(self, endpoint: Endpoint, said: bytes) -> None:
        try:
            check_values(said, f"{endpoint.url}{self.greeting}")
            health = HealthAnswer.model_validate_json(said)
        except (GeneratorError, ValidationError):
            maker = Maker("")  # reporting the model is optional
        else:
            maker = Maker(_quoted(endpoint.server, health.name), exact=bool(health.identity))
            endpoint.workers = health.alive
        self._makers.add(endpoint.url, maker)


def _quoted(server: RemoteServer, name: str) -> str:
    """Return a name that is safe to show. A long one is cut and gets the digest of the complete name."""
    if len(name) <= MAX_SHOWN:
        return server.quote(name)
    return f"{server.quote(name)} sha256={hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _picture_in(data: bytes, server: RemoteServer, most: int) -> tuple[Picture | GeneratorError, Any]:
    """Read the image of an answer.

    Returns:
        The image, or the error that the service reports, and the options that the service ignored.

    Raises:
        GeneratorError: The answer is invalid.
    """
    answer = read_answer(EditAnswer, data, f"{server.url}/edit", server, "an edited image")
    del data
    if not answer.success:
        reason = server.quote(answer.error or "no reason given")
        return GeneratorError(f"{server.url} could not generate the image: {reason}."), None
    if not answer.edited_image:
        raise GeneratorError(f"{server.url} reported success, but returned no image.")
    return decoded(answer.edited_image, server, most), answer.ignored
