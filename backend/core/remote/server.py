"""A remote server as the clients of this package use it: what is sent, and how much of its answer is read.

All clients use this module. The key is sent only in the request header. Redirects are not followed, since
another host is not the one that the user named. Compressed answers, which can expand a thousandfold, are
neither requested nor read. Bodies and lines have a maximum size. Text from a server is quoted on one line,
without control characters and without the key, and no error has the server's own text as its cause.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..errors import InterleaveError, SettingsError
from ..shown_text import one_line
from .addresses import THIS_MACHINE
from .api_keys import KeyMask
from .call import RemoteCall

if TYPE_CHECKING:
    import httpx

MAX_SHOWN = 300
MAX_REFUSAL = 8192
"""Maximum bytes that are read of an error answer."""
CONNECT_SECONDS = 30.0
LOGGERS = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy")


@dataclass(frozen=True)
class Form:
    """A body of fields and files (multipart/form-data).

    `files` are (field, file name, content) in order, all of them PNG.
    """

    fields: Mapping[str, str]
    files: Sequence[tuple[str, str, bytes]]


class RemoteServer:
    """The server at a URL.

    Args:
        url: URL of the server.
        key: API key sent to it.
        kind: Class of errors.
        key_header: Header that contains the key alone. Default: the key is sent as a bearer token.
    """

    def __init__(
        self, url: str, key: str | None, kind: type[InterleaveError], key_header: str | None = None
    ) -> None:
        self.url = url
        self.mask = KeyMask(key)
        self._key_sent = _key_sent(key, key_header)
        self._kind = kind
        self.headers: dict[str, str] = {}
        """Headers sent with every request, in addition to the key."""

    def __repr__(self) -> str:
        return f"RemoteServer({self.url!r})"

    @contextmanager
    def answer(
        self, call: RemoteCall, method: str, path: str, silence: float, body: Any = None
    ) -> Iterator[httpx.Response]:
        """Send a request and yield the response.

        Args:
            call: Deadline and cancellation.
            method: HTTP method.
            path: Path of the route.
            silence: Maximum wait for the next bytes, in seconds.
            body: Sent as a form if it is a Form, or else as JSON.

        Raises:
            InterleaveError: Of class `kind`: the answer is compressed or a redirect. httpx's errors pass
                unchanged.
        """
        import httpx

        headers = {"Accept-Encoding": "identity", **self.headers, **self._key_sent}
        limits = httpx.Timeout(silence, connect=min(silence, CONNECT_SECONDS))
        # A proxy from the environment cannot reach a server on this machine.
        proxies = urlsplit(self.url).hostname not in THIS_MACHINE
        with (
            self._masked_logs(),
            httpx.Client(
                timeout=limits, trust_env=proxies, follow_redirects=False, verify=certificates()
            ) as client,
            client.stream(
                method,
                self.url + path,
                **_sent(body),
                headers=headers,
                extensions={"trace": call.trace},
            ) as response,
        ):
            if 300 <= response.status_code < 400:
                raise self._kind(
                    f"{self.url}{path} redirects (HTTP {response.status_code}) to "
                    f"{self.quote(response.headers.get('location', 'another address'))}.",
                    "Redirects are not followed: use that address, if you trust it.",
                )
            encoding = response.headers.get("content-encoding", "identity").strip().lower()
            if encoding not in ("", "identity"):
                raise self._kind(
                    f"{self.url}{path} sent a compressed answer ({self.quote(encoding)}) that was not "
                    "requested."
                )
            yield response

    def whole(self, response: httpx.Response, limit: int) -> bytes:
        """Return the body of a response.

        Raises:
            InterleaveError: Of class `kind`: the body exceeds `limit` bytes.
        """
        body = bytearray()
        for part in response.iter_raw():
            body += part
            if len(body) > limit:
                raise self._too_much(limit)
        return bytes(body)

    def refusal(self, response: httpx.Response) -> str:
        """Return the beginning of a body as shown by `quote`."""
        body = bytearray()
        for part in response.iter_raw():
            body += part
            if len(body) >= MAX_REFUSAL:
                break
        return self.quote(bytes(body[:MAX_REFUSAL]))

    def lines(self, response: httpx.Response, limit: int, line_limit: int) -> Iterator[str]:
        """Yield the lines of the body without their ends.

        Raises:
            InterleaveError: Of class `kind`: the body or a line exceeds its limit in bytes.
        """
        begun, size = bytearray(), 0
        for part in response.iter_raw():
            size += len(part)
            if size > limit:
                raise self._too_much(limit)
            first, *others = part.split(b"\n")
            begun += first
            for other in others:
                yield begun.decode("utf-8", "replace").rstrip("\r")
                begun = bytearray(other)
            if len(begun) > line_limit:
                raise self._kind(f"{self.url} sent a line of more than {line_limit} bytes.")
        if begun:
            yield begun.decode("utf-8", "replace").rstrip("\r")

    def quote(self, said: bytes | str) -> str:
        """Return a server's text on one line, safe to print and without the key.

        It has at most MAX_SHOWN characters.
        """
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
        text = self._one_line(text[: 2 * MAX_REFUSAL])
        return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Convert errors inside the block to `kind`, on one line and without the key.

        Other errors of this package pass unchanged.

        Raises:
            InterleaveError: Of class `kind`.
        """
        try:
            yield
        except self._kind as error:
            plain = type(error).__init__ is InterleaveError.__init__
            kind = type(error) if plain else self._kind
            raise error.told_as(kind, self._one_line(error.message)) from None
        except InterleaveError:
            raise
        except Exception as error:  # noqa: BLE001 - a boundary: every error is reported on one line
            raise self._kind(
                f"The answer of {self.url} cannot be read ({self.quote(f'{type(error).__name__}: {error}')})."
            ) from None

    def _one_line(self, message: str) -> str:
        return " ".join(one_line(self.mask(message)).split())

    def _too_much(self, limit: int) -> InterleaveError:
        return self._kind(f"{self.url} sent more than {limit} bytes, the maximum.")

    @contextmanager
    def _masked_logs(self) -> Iterator[None]:
        """Mask the key in the logs of the HTTP library, which contain servers' text too."""

        def mask(record: logging.LogRecord) -> bool:
            record.msg, record.args = self.mask(record.getMessage()), ()
            return True

        loggers = [logging.getLogger(name) for name in LOGGERS]
        for logger in loggers:
            logger.addFilter(mask)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(mask)


def _key_sent(key: str | None, header: str | None) -> dict[str, str]:
    """Return the header with the key."""
    if not key:
        return {}
    return {header: key} if header else {"Authorization": f"Bearer {key}"}


def _sent(body: Any) -> dict[str, Any]:
    """Return a body as arguments of httpx."""
    if not isinstance(body, Form):
        return {"json": body}
    files = [(field, (name, content, "image/png")) for field, name, content in body.files]
    return {"data": dict(body.fields), "files": files}


@lru_cache(maxsize=1)
def certificates() -> ssl.SSLContext:
    """Return the trusted certificate authorities.

    These are the ones of the environment variables SSL_CERT_FILE or SSL_CERT_DIR, or else the public ones.
    They are read once, because reading them takes tens of milliseconds per client.

    Raises:
        SettingsError: A file contains no certificates.
    """
    import httpx

    try:
        return httpx.create_ssl_context()
    except OSError as error:  # ssl.SSLError is a subclass
        raise SettingsError(
            f"Cannot read certificates from SSL_CERT_FILE or SSL_CERT_DIR ({error}).",
            "Set SSL_CERT_FILE to a PEM file with the authority's certificate, or unset it.",
        ) from error
