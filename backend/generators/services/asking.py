"""Sends a request to an image service, and classifies failures by what the caller should do next.

A failure is of one of two kinds. Failures of the service (a redirect, an endless answer, an unknown route, a
rejected key) or of the moment (no connection, 429, 5xx, timeout) raise `Unanswered`: the caller may use
another service or try again. Failures of the request (other 4xx) are errors at once, since every other
service would reject it too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

from ...errors import DrawRefused, GeneratorError
from ...remote.api_keys import GENERATOR_KEY
from ...remote.balanced import Unanswered
from ...remote.call import RemoteCall, moment_of, retry_after, unknown_model
from ...remote.server import RemoteServer

NO_SUCH_PAGE = frozenset({404, 405, 501})
NOT_FOR_US = NO_SUCH_PAGE | {401}
"""Statuses that show that the service is not of the expected kind."""
MODERATION = re.compile(r"moderation|content[_ ]policy|content[_ ]filter|safety|responsible[_ ]?ai", re.I)
MODERATION_STATUS = {400, 403, 422, 451}
KEY_STATUS = {401, 403}
WRONG_KEY = "API_KEY_INVALID"
"""Reason in the answers of servers that report a wrong key as an invalid request (400)."""
UNREACHABLE = "Check that the service is running and reachable."
UNTRUSTED = (
    "If your own authority signed its certificate, set SSL_CERT_FILE to the PEM file of that authority."
)


@dataclass(frozen=True)
class ServiceQuery:
    """A request to a service.

    Attributes:
        method: HTTP method.
        path: Path of the route.
        limit: Maximum bytes of the answer.
        body: Body, as RemoteServer.answer accepts it.
        missing: Statuses that count as an empty answer, for services without this route.
        key_variable: Environment variable of the API key, for errors.
    """

    method: str
    path: str
    limit: int
    body: Any = None
    missing: frozenset[int] = frozenset()
    key_variable: str = GENERATOR_KEY


class ServiceRefused(GeneratorError):
    """The service at `url` rejected the request itself, with an HTTP status and a message."""

    def __init__(
        self, message: str, url: str, status: int, said: str, key_variable: str = GENERATOR_KEY
    ) -> None:
        wrong_key = status in KEY_STATUS or WRONG_KEY in said
        super().__init__(
            message,
            f"Set the environment variable {key_variable} to its API key."
            if wrong_key
            else unknown_model(status, said, url),
        )
        self.url, self.status, self.said = url, status, said


def asked(server: RemoteServer, call: RemoteCall, question: ServiceQuery, silence: float) -> bytes:
    """Send a request and return the body of the answer.

    Args:
        server: The service.
        call: Deadline and cancellation.
        question: The request.
        silence: Maximum wait for the next bytes, in seconds.

    Raises:
        Unanswered: The service failed; another service or attempt may succeed.
        ServiceRefused: The service rejected the request.
    """
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
        hint = "Increase the deadline, or reduce the steps."
        return Unanswered(GeneratorError(f"{where} did not answer in time.", hint), "late")
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
        error = GeneratorError(f"{where} failed with HTTP {status}: {said}.", UNREACHABLE)
        return Unanswered(error, moment, after)
    message = f"{where} was rejected with HTTP {status}: {said}"
    refused = ServiceRefused(message, server.url, status, said, question.key_variable)
    return Unanswered(refused, "wrong") if status in NOT_FOR_US else refused


def raise_refusal(refusal: ServiceRefused) -> NoReturn:
    """Raise DrawRefused for a refusal by moderation, or else the refusal itself."""
    if refusal.status in MODERATION_STATUS and MODERATION.search(refusal.said):
        raise DrawRefused(
            f"{refusal.url} refuses this prompt: {refusal.said.rstrip('.')}.", "Change the prompt."
        ) from None
    raise refusal from None
