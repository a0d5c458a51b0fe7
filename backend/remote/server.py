"""A server of somebody else's as the clients of this package see it: what is sent to it, and how much of what
it says is read.

Decision: both clients speak through this one door. The key goes into the request's header and nowhere else;
redirects are not followed, since another host is not the one that the user named; compressed answers, which
can be a thousand times as large as they look, are neither asked for nor read; bodies and lines have a largest
size. Whatever a server says is quoted in one line, without control characters and without the key, and no
error that leaves here carries the server's own words as its cause.
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
from .call import RemoteCall
from .key_mask import KeyMask

if TYPE_CHECKING:
    import httpx

THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
MAX_SHOWN = 300
MAX_REFUSAL = 8192
"""Bytes that are read of an answer that is no answer."""
CONNECT_SECONDS = 30.0
LOGGERS = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy")


@dataclass(frozen=True)
class Form:
    """A body of fields and files (multipart/form-data); files are (field, file name, content) in their
    order, all of them PNG."""

    fields: Mapping[str, str]
    files: Sequence[tuple[str, str, bytes]]


class RemoteServer:
    """The server at `url`, which is shown `key`; `kind` is the error that its faults become."""

    def __init__(self, url: str, key: str | None, kind: type[InterleaveError]) -> None:
        self.url = url
        self.mask = KeyMask(key)
        self._key = key
        self._kind = kind
        self.headers: dict[str, str] = {}
        """Sent with every request, beside the key."""

    def __repr__(self) -> str:
        return f"RemoteServer({self.url!r})"

    @contextmanager
    def answer(
        self, call: RemoteCall, method: str, path: str, silence: float, body: Any = None
    ) -> Iterator[httpx.Response]:
        """Ask, with `body` as JSON, or as what it is if it is a Form. `silence`: longest wait in seconds for
        the next bytes. Raises httpx's errors, and `kind` for an answer that is compressed or at another
        address."""
        import httpx

        headers = {"Accept-Encoding": "identity", **self.headers} | (
            {"Authorization": f"Bearer {self._key}"} if self._key else {}
        )
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
                    f"{self.url}{path} answered with status {response.status_code}: it is to be found at "
                    f"{self.quote(response.headers.get('location', 'another address'))}.",
                    "Addresses are not followed: name that one, if you trust it.",
                )
            encoding = response.headers.get("content-encoding", "identity").strip().lower()
            if encoding not in ("", "identity"):
                raise self._kind(
                    f"{self.url}{path} sent a compressed answer ({self.quote(encoding)}), which was not "
                    "asked for."
                )
            yield response

    def whole(self, response: httpx.Response, limit: int) -> bytes:
        """The body; raises `kind` if it has more than `limit` bytes."""
        body = bytearray()
        for part in response.iter_raw():
            body += part
            if len(body) > limit:
                raise self._too_much(limit)
        return bytes(body)

    def refusal(self, response: httpx.Response) -> str:
        """The beginning of a body, as `quote` shows it."""
        body = bytearray()
        for part in response.iter_raw():
            body += part
            if len(body) >= MAX_REFUSAL:
                break
        return self.quote(bytes(body[:MAX_REFUSAL]))

    def lines(self, response: httpx.Response, limit: int, line_limit: int) -> Iterator[str]:
        """The lines of the body without their ends; raises `kind` for a body or a line with more bytes than
        these."""
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
        """What the server says as one line of at most MAX_SHOWN characters that are safe to print, without
        the key."""
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
        text = self._one_line(text[: 2 * MAX_REFUSAL])
        return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."

    @contextmanager
    def faults(self) -> Iterator[None]:
        """What fails inside becomes `kind`, in one line and without the key; other errors of ours pass
        unchanged."""
        try:
            yield
        except self._kind as error:
            plain = type(error).__init__ is InterleaveError.__init__
            kind = type(error) if plain else self._kind
            raise kind(self._one_line(error.message), error.hint) from None
        except InterleaveError:
            raise
        except Exception as error:  # noqa: BLE001 - a boundary: whatever it was is reported in one line
            raise self._kind(
                f"{self.url} could not be understood ({self.quote(f'{type(error).__name__}: {error}')})."
            ) from None

    def _one_line(self, message: str) -> str:
        return " ".join(one_line(self.mask(message)).split())

    def _too_much(self, limit: int) -> InterleaveError:
        return self._kind(f"{self.url} sent more than {limit} bytes; the rest was not read.")

    @contextmanager
    def _masked_logs(self) -> Iterator[None]:
        """The HTTP library logs what servers say too."""

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


def _sent(body: Any) -> dict[str, Any]:
    """A body as arguments of httpx."""
    if not isinstance(body, Form):
        return {"json": body}
    files = [(field, (name, content, "image/png")) for field, name, content in body.files]
    return {"data": dict(body.fields), "files": files}


@lru_cache(maxsize=1)
def certificates() -> ssl.SSLContext:
    """The authorities that are trusted: those of the environment variables SSL_CERT_FILE or SSL_CERT_DIR,
    else the public ones. Read once: a client that reads them itself takes tens of milliseconds for every
    request. Raises SettingsError for a file that holds none."""
    import httpx

    try:
        return httpx.create_ssl_context()
    except OSError as error:  # ssl.SSLError is one, too
        raise SettingsError(
            f"SSL_CERT_FILE or SSL_CERT_DIR names no certificates ({error}).",
            "Name a PEM file with the authority's certificate, or unset it.",
        ) from error
