"""Draws with an image service over HTTP: POST /edit with base64 images, as the published generator services speak.

Decision: the service is a foreign machine. Its answer is bounded in size and read through a model that ignores what it
does not know; connection faults, 429 and 5xx are tried three times, everything else is an error at once, and a
`success: false` is the service's word and not tried again. A key comes from the environment only, because the
identity, which names the URL and all options, is written into every run's folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import Cancelled, GeneratorError, PictureError, SettingsError
from ..pictures import Picture

KEY_VARIABLE = "INTERLEAVE_GENERATOR_KEY"
MAX_ANSWER_BYTES = 128 * 1024 * 1024
MAX_HEALTH_BYTES = 1024 * 1024
HEALTH_TIMEOUT = 10.0
TRIES = 3
RETRIED_STATUS = {429, 500, 502, 503, 504}
NO_SUCH_PAGE = {404, 405, 501}
LOOPBACK = {"localhost", "127.0.0.1", "::1"}


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


class _Retryable(Exception):
    """A fault of the way to the service or of its moment, not of the request."""


def open(
    argument: str,
    *,
    steps: int | None = None,
    guidance: float | None = None,
    size: str | None = None,
    negative: str | None = None,
    timeout: float = 300.0,
) -> HttpGenerator:
    """Connect to a service at `http://HOST:PORT`, `https://...` or `//HOST:PORT`; `timeout` in seconds a request.

    `size` is WIDTHxHEIGHT in pixels. Raises SettingsError for an unusable URL or option, GeneratorError if nothing
    answers there.
    """
    if timeout <= 0:
        raise SettingsError(f"timeout must be above 0 seconds, but is {timeout}.")
    width, height = _read_size(size)
    options = {
        "guidance_scale": guidance,
        "num_inference_steps": steps,
        "width": width,
        "height": height,
        "negative_prompt": negative,
    }
    given = {key: value for key, value in options.items() if value is not None}
    return HttpGenerator(_read_url(argument), given, timeout=timeout)


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
    """A client of one service. Set `interrupted` to be asked before every try."""

    def __init__(self, url: str, options: dict[str, Any], *, timeout: float = 300.0) -> None:
        import httpx

        key = os.environ.get(KEY_VARIABLE, "")
        self.interrupted: Callable[[], bool] | None = None
        self._url = url
        self._options = options
        self._client = httpx.Client(
            timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0)),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            trust_env=urlsplit(url).hostname
            not in LOOPBACK,  # a proxy cannot reach this machine's own services
        )
        model = self._ask_health()
        given = " ".join(f"{name}={value!r}" for name, value in sorted(options.items()))
        self.identity = " ".join(
            part for part in (f"http {url}", model and f"model={model!r}", given) if part
        )

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Have the image drawn (`source` None: from text) and return it. Raises GeneratorError or Cancelled."""
        body = {
            "image": source.base64_png() if source else None,
            "prompt": prompt,
            "seed": seed,
            **self._options,
        }
        data = self._request("POST", "/edit", MAX_ANSWER_BYTES, json=body)
        try:
            answer = EditAnswer.model_validate_json(data)
        except ValidationError as error:
            raise GeneratorError(
                f"{self._url}/edit answered something else than an edit ({error.errors()[0]['msg']}): {_quote(data)}",
                "Is this an image service of this kind?",
            ) from error
        if not answer.success:
            raise GeneratorError(
                f"{self._url} could not draw: {_quote(answer.error or 'it does not say why')}."
            )
        if not answer.edited_image:
            raise GeneratorError(f"{self._url} reported success, but sent no image.")
        try:
            return Picture.from_base64(answer.edited_image, f"The image from {self._url}")
        except PictureError as error:
            raise GeneratorError(error.message, error.hint) from error

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _ask_health(self) -> str:
        try:
            data = self._request("GET", "/health", MAX_HEALTH_BYTES, timeout=HEALTH_TIMEOUT)
            return HealthAnswer.model_validate_json(data).name
        except _NoSuchPage:
            return ""  # a service need not have the page
        except ValidationError:
            return ""  # nor say which model it holds

    def _request(self, method: str, path: str, limit: int, **arguments: Any) -> bytes:
        from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

        retrying = Retrying(
            stop=stop_after_attempt(TRIES),
            wait=wait_exponential(multiplier=0.25, max=4.0),
            retry=retry_if_exception_type(_Retryable),
            reraise=True,
        )
        try:
            return retrying(self._try_request, method, path, limit, **arguments)
        except _Retryable as error:
            raise GeneratorError(
                f"{method} {self._url}{path} failed {TRIES} times: {error}.",
                "Is the service running and reachable?",
            ) from error

    def _try_request(self, method: str, path: str, limit: int, **arguments: Any) -> bytes:
        import httpx

        if self.interrupted is not None and self.interrupted():
            raise Cancelled("Drawing was stopped.")
        where = f"{method} {self._url}{path}"
        try:
            with self._client.stream(method, self._url + path, **arguments) as response:
                data = _read_bounded(response, limit, where)
        except httpx.ReadTimeout as error:
            # The service is at work on it: asking again would only double its work.
            raise GeneratorError(
                f"{where} gave no answer in time.", "Raise timeout, or lower the steps."
            ) from error
        except httpx.TransportError as error:
            raise _Retryable(f"{type(error).__name__}: {error}") from error
        except httpx.HTTPError as error:
            raise GeneratorError(f"{where}: {type(error).__name__}: {error}.") from error
        if response.status_code in RETRIED_STATUS:
            raise _Retryable(f"status {response.status_code}: {_quote(data)}")
        if response.status_code in NO_SUCH_PAGE and path == "/health":
            raise _NoSuchPage
        if response.status_code != 200:
            hint = f"Set {KEY_VARIABLE} to the service's key." if response.status_code in (401, 403) else ""
            raise GeneratorError(
                f"{where} was refused with status {response.status_code}: {_quote(data)}", hint
            )
        return data


class _NoSuchPage(Exception):
    """The service has no page at this path."""


def _read_bounded(response: Any, limit: int, where: str) -> bytes:
    parts, length = [], 0
    for part in response.iter_bytes():
        length += len(part)
        if length > limit:
            raise GeneratorError(f"{where} sent more than {limit} bytes; the rest was not read.")
        parts.append(part)
    return b"".join(parts)


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
            "The service's URL may hold only scheme, host, port and path.", f"A key goes into {KEY_VARIABLE}."
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _quote(data: bytes | str) -> str:
    text = data if isinstance(data, str) else data[:2000].decode("utf-8", "replace")
    text = re.sub(r"\s+", " ", text).strip()
    return text if len(text) <= 300 else text[:300] + "..."
