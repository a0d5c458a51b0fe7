"""Draws with an image service over HTTP: POST /edit with base64 images, as the published generator services
speak.

Decision: the service is a foreign machine. Its answer is bounded in size and read through a model that
ignores what it does not know; connection faults, 429 and 5xx are tried three times, everything else is an
error at once, and a `success: false` is the service's word and not tried again. All tries of a request have
one deadline, and it can be cancelled at any moment (remote/call.py). A key comes from the environment only,
because the identity, which names the URL and all options, is written into every run's folder.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import Cancelled, GeneratorError, PictureError, SettingsError
from ..pictures import MAX_PIXELS, Picture
from ..remote.api_keys import GENERATOR_KEY, read_key
from ..remote.call import TRIES, RemoteCall, Retryable
from ..remote.server import RemoteServer
from ..types import StepSettings
from .protocol import bounded_identity

MAX_ANSWER_BYTES = 128 * 1024 * 1024
MAX_HEALTH_BYTES = 1024 * 1024
HEALTH_SECONDS = 10.0
DEADLINE = 300.0
RETRIED_STATUS = {429, 500, 502, 503, 504}
NO_SUCH_PAGE = {404, 405, 501}
MAX_ANSWER_VALUES = 10_000
UNASKED_PIXELS = 16 * 1024 * 1024
LARGER = 4


class EditAnswer(BaseModel):
    """What POST /edit answers (FORMATS: HTTP generator service); further keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    success: bool
    edited_image: str | None = None
    seed: int | None = None
    error: str | None = None


class HealthAnswer(BaseModel):
    """What GET /health may say about the model behind the service; services name it under different keys."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    identity: str | None = Field(default=None, max_length=1000)
    model: str | None = Field(default=None, max_length=1000)
    model_id: str | None = Field(default=None, max_length=1000)
    model_name: str | None = Field(default=None, max_length=1000)

    @property
    def name(self) -> str:
        """The most telling of the names, empty if there is none."""
        return self.identity or self.model or self.model_id or self.model_name or ""


class DrawOptions(BaseModel):
    """What a service may be asked for beside prompt, image and seed; `size` is WIDTHxHEIGHT in pixels."""

    model_config = ConfigDict(extra="forbid")

    steps: int | None = None
    guidance: float | None = None
    size: str | None = None
    negative: str | None = None


OPTIONS = DrawOptions
"""Whose fields `open` takes as options."""


def open(
    argument: str,
    *,
    deadline: float = DEADLINE,
    interrupted: Callable[[], bool] | None = None,
    **given: Any,
) -> HttpGenerator:
    """Connect to a service at `http://HOST:PORT`, `https://...` or `//HOST:PORT`; `deadline` in seconds for
    an image, all tries together. `interrupted` is asked several times a second from the first question on,
    `given`: fields of DrawOptions.

    Raises SettingsError for an unusable URL or option, GeneratorError if nothing answers there, Cancelled.
    """
    if not 0 < deadline < math.inf:
        raise SettingsError(f"The deadline must be above 0 seconds, but is {deadline}.")
    try:
        wanted = DrawOptions(**given)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise SettingsError(f"Generator 'http', option {fault['loc'][0]}: {fault['msg']}.") from error
    width, height = _read_size(wanted.size)
    options = {
        "guidance_scale": wanted.guidance,
        "num_inference_steps": wanted.steps,
        "width": width,
        "height": height,
        "negative_prompt": wanted.negative,
    }
    set_ones = {key: value for key, value in options.items() if value is not None}
    return HttpGenerator(_read_url(argument), set_ones, deadline=deadline, interrupted=interrupted)


def _read_size(size: str | None) -> tuple[int | None, int | None]:
    if size is None:
        return None, None
    width, _, height = size.lower().partition("x")
    if not (width.isdigit() and height.isdigit() and 1 <= int(width) <= 8192 and 1 <= int(height) <= 8192):
        raise SettingsError(
            f"Size {size!r} is not WIDTHxHEIGHT with 1 to 8192 pixels a side.", "Say 1024x768."
        )
    return int(width), int(height)


class HttpGenerator:
    """A client of one service. `interrupted` is asked several times a second while the service is waited
    for, also by the first question, which is asked here. Raises GeneratorError, Cancelled."""

    def __init__(
        self,
        url: str,
        options: dict[str, Any],
        *,
        deadline: float = DEADLINE,
        interrupted: Callable[[], bool] | None = None,
    ) -> None:
        self.interrupted = interrupted
        self._url = url
        self._options = options
        self._deadline = deadline
        self._server = RemoteServer(url, read_key(GENERATOR_KEY), GeneratorError)
        model = self._ask_health()
        given = " ".join(f"{name}={value!r}" for name, value in sorted(options.items()))
        self.identity = bounded_identity(
            " ".join(part for part in (f"http {url}", model and f"model={model!r}", given) if part)
        )

    @property
    def step_settings(self) -> frozenset[str]:
        """`negative`; a service is not asked how much of a source it is to redraw."""
        return frozenset({"negative"})

    def with_step_settings(self, settings: StepSettings) -> HttpGenerator:
        """The same service, asked with these settings."""
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
        data = self._request("POST", "/edit", MAX_ANSWER_BYTES, self._deadline, body)
        with self._server.faults():
            return self._picture_in(data, self._most_pixels(source))

    def _most_pixels(self, source: Picture | None) -> int:
        """A service may draw larger than it was asked to, but not so large that it fills the memory here."""
        width, height = source.size if source else (0, 0)
        asked = (self._options.get("width") or width) * (self._options.get("height") or height)
        return min(MAX_PIXELS, max(UNASKED_PIXELS, LARGER * asked))

    def _picture_in(self, data: bytes, most: int) -> Picture:
        # An image is one value, however long it is.
        if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_ANSWER_VALUES:
            raise GeneratorError(f"{self._url}/edit answered with more than {MAX_ANSWER_VALUES} values.")
        try:
            answer = EditAnswer.model_validate_json(data)
        except ValidationError as error:
            raise GeneratorError(
                f"{self._url}/edit answered something else than an edit "
                f"({error.errors(include_url=False)[0]['msg']}): {self._server.quote(data)}",
                "Is this an image service of this kind?",
            ) from error
        del data
        if not answer.success:
            reason = self._server.quote(answer.error or "it does not say why")
            raise GeneratorError(f"{self._url} could not draw: {reason}.")
        if not answer.edited_image:
            raise GeneratorError(f"{self._url} reported success, but sent no image.")
        try:
            return Picture.from_base64(answer.edited_image, f"The image from {self._url}", most)
        except PictureError as error:
            raise GeneratorError(error.message, error.hint) from error

    def _ask_health(self) -> str:
        seconds = min(self._deadline, HEALTH_SECONDS)
        try:
            data = self._request("GET", "/health", MAX_HEALTH_BYTES, seconds)
            if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_ANSWER_VALUES:
                return ""
            return self._server.quote(HealthAnswer.model_validate_json(data).name)
        except ValidationError:
            return ""  # a service need not say which model it holds

    def _request(self, method: str, path: str, limit: int, seconds: float, body: Any = None) -> bytes:
        """The body of the answer; raises GeneratorError, Cancelled."""
        call = RemoteCall(seconds)
        late = GeneratorError(
            f"{method} {self._url}{path} gave no answer within {seconds:g} s.",
            "Set a later deadline, or lower the steps.",
        )

        def look_up(text: str) -> None:
            if self.interrupted is not None and self.interrupted():
                raise Cancelled("Drawing was stopped.")

        def ask(take: Callable[[str], None]) -> bytes:
            with self._server.faults():
                return call.retried(lambda: self._ask_once(call, method, path, limit, seconds, body))

        look_up("")
        return call.carry_out(ask, look_up, late)

    def _ask_once(
        self, call: RemoteCall, method: str, path: str, limit: int, seconds: float, body: Any
    ) -> bytes:
        import httpx

        where = f"{method} {self._url}{path}"
        try:
            with self._server.answer(call, method, path, seconds, body) as response:
                status = response.status_code
                if status == 200:
                    return self._server.whole(response, limit)
                refusal = self._server.refusal(response)
        except httpx.ReadTimeout as error:
            # The service is at work on it: asking again would only double its work.
            raise GeneratorError(
                f"{where} gave no answer in time.", "Set a later deadline, or lower the steps."
            ) from error
        except httpx.TransportError as error:
            raise self._retryable(where, self._server.quote(f"{type(error).__name__}: {error}")) from error
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            said = self._server.quote(f"{type(error).__name__}: {error}")
            raise GeneratorError(f"{where} failed: {said}.") from error
        if status in RETRIED_STATUS:
            raise self._retryable(where, f"status {status}: {refusal}")
        if status in NO_SUCH_PAGE and path == "/health":
            return b"{}"  # a service need not have the page
        hint = f"Set {GENERATOR_KEY} to the service's key." if status in (401, 403) else ""
        raise GeneratorError(f"{where} was refused with status {status}: {refusal}", hint)

    def _retryable(self, where: str, fault: str) -> Retryable:
        hint = "Is the service running and reachable?"
        return Retryable(GeneratorError(f"{where} failed {TRIES} times: {fault}.", hint))


def _read_url(argument: str) -> str:
    # `http:URL` arrives as the part after the first colon, so `http://host` as `//host`.
    text = f"http:{argument}" if argument.startswith("//") else argument
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"{argument!r} is not a URL ({error}).") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise SettingsError(
            f"{argument!r} is not the URL of a service.", "Give http://HOST:PORT or https://HOST."
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SettingsError(
            "The service's URL may hold only scheme, host, port and path.",
            f"A key goes into {GENERATOR_KEY}.",
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
