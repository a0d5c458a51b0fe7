"""One question to one service, and what its status means for who asks next.

Decision: every fault is of one of two kinds. Of this service (a redirect, an endless answer, no such page, a
key that it does not take) or of its moment (no connection, 429, 5xx, late): `Unanswered`, for whoever has
another service or another moment. Of the request (other 4xx): an error at once, since every other service
would say the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import GeneratorError
from ...remote.api_keys import GENERATOR_KEY
from ...remote.balanced import Unanswered
from ...remote.call import RemoteCall
from ...remote.retrying import moment_of, retry_after
from ...remote.server import RemoteServer

NO_SUCH_PAGE = frozenset({404, 405, 501})
NOT_FOR_US = NO_SUCH_PAGE | {401}
"""What a service says that is another one than it was taken for."""
UNREACHABLE = "Is the service running and reachable?"
UNTRUSTED = "Where your own authority signed its certificate: set SSL_CERT_FILE to that one's PEM file."


@dataclass(frozen=True)
class ServiceQuery:
    """What is asked: `body` as RemoteServer.answer takes it, at most `limit` bytes of an answer are read.
    `missing`: statuses that are answers with nothing in them, of services without such a page."""

    method: str
    path: str
    limit: int
    body: Any = None
    missing: frozenset[int] = frozenset()


class ServiceRefused(GeneratorError):
    """The service at `url` refused the request itself, with `status` and what it `said`."""

    def __init__(self, message: str, url: str, status: int, said: str) -> None:
        super().__init__(message, f"Set {GENERATOR_KEY} to its key." if status in (401, 403) else "")
        self.url, self.status, self.said = url, status, said


def asked(server: RemoteServer, call: RemoteCall, question: ServiceQuery, silence: float) -> bytes:
    """The body of the answer; `silence`: longest wait for the next bytes in seconds. Raises Unanswered,
    ServiceRefused."""
    try:
        with server.faults():
            found = _asked(server, call, question, silence)
    except GeneratorError as error:
        raise Unanswered(error, "wrong") from None
    if isinstance(found, bytes):
        return found
    raise found


def _asked(
    server: RemoteServer, call: RemoteCall, question: ServiceQuery, silence: float
) -> bytes | Unanswered | ServiceRefused:
    import httpx

    where = f"{question.method} {server.url}{question.path}"
    try:
        with server.answer(call, question.method, question.path, silence, question.body) as response:
            status = response.status_code
            if status == 200:
                return server.whole(response, question.limit)
            said = server.refusal(response)
            after = retry_after(response.headers.get("retry-after"))
    except httpx.ReadTimeout:
        hint = "Set a later deadline, or lower the steps."
        return Unanswered(GeneratorError(f"{where} gave no answer in time.", hint), "late")
    except httpx.TransportError as error:
        fault = server.quote(f"{type(error).__name__}: {error}")
        hint = UNTRUSTED if "CERTIFICATE_VERIFY_FAILED" in fault else UNREACHABLE
        return Unanswered(GeneratorError(f"{where} failed: {fault}.", hint), "down")
    except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
        fault = server.quote(f"{type(error).__name__}: {error}")
        raise GeneratorError(f"{where} failed: {fault}.") from error
    if status in question.missing:
        return b"{}"
    moment = moment_of(status, said)
    if moment is not None:
        error = GeneratorError(f"{where} failed: status {status}: {said}.", UNREACHABLE)
        return Unanswered(error, moment, after)
    refused = ServiceRefused(f"{where} was refused with status {status}: {said}", server.url, status, said)
    return Unanswered(refused, "wrong") if status in NOT_FOR_US else refused
