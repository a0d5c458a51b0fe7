"""Image services over HTTP: a list of them acts as one generator.

A service is another machine, which can fail. A request goes to one service of the list, and to others as
remote/balanced.py decides. All of this shares one deadline and can be canceled at any time, which closes the
connections (remote/call.py). Failures are of two kinds. Failures of the service (a redirect, an endless
answer, an unknown route, a rejected key) or of the moment (no connection, 429, 5xx, timeout) raise
`Unanswered`: another service or attempt may succeed. Failures of the request (other 4xx) are errors at once,
since every other service would reject it too.

The services are contacted when the generator is opened, and opening succeeds if one of them answers. Their
models must be the same, because an image must not depend on the service that generated it.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...core.errors import (
    Cancelled,
    DrawRefused,
    GeneratorError,
    PictureError,
    SettingsError,
    first_fault,
)
from ...core.pictures import MAX_PIXELS, Picture
from ...core.remote.addresses import DEFAULT_PORT, Addresses
from ...core.remote.api_keys import GENERATOR_KEY, read_key
from ...core.remote.balanced import GREETING_SECONDS, Balanced, Endpoint, Endpoints, Unanswered
from ...core.remote.call import (
    MAX_ATTEMPTS,
    RemoteCall,
    Retryable,
    check_seconds,
    moment_of,
    retry_after,
    unknown_model,
)
from ...core.remote.server import RemoteServer
from ...core.seams.generator import Generator
from ...core.types.run_settings import AnySize, sides_of

if TYPE_CHECKING:
    from typing_extensions import Self

LOG = logging.getLogger(__name__)
DEADLINE = 300.0
MAX_GREETING_BYTES = 1024 * 1024
UNASKED_PIXELS = 16 * 1024 * 1024
LARGER = 4
MAX_AT_ONCE = 64
LOOK_EVERY = 0.2
"""Seconds between checks whether a wait was canceled."""
MARGIN = 1.0
"""Seconds after the services' own deadline at which opening stops waiting for them."""
AHEAD = 2
"""Concurrent requests per worker of a service: one is being generated, one is on its way."""
MAX_ANSWER_BYTES = 128 * 1024 * 1024
MAX_ANSWER_VALUES = 10_000
MAX_NAMES, MAX_NAME = 10, 60
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
Answer = TypeVar("Answer", bound=BaseModel)
Asked = TypeVar("Asked")
Read = Callable[[RemoteServer, bytes], Picture | GeneratorError]
"""Reads the image of an answer, or returns the error of a service that refuses to generate it.

Such a request is not sent to another service. Raises GeneratorError for an invalid answer.
"""


class ListOptions(BaseModel):
    """Options of every list of services. `size` is WIDTHxHEIGHT in pixels."""

    model_config = ConfigDict(extra="forbid")

    size: AnySize | None = None
    service_port: int = Field(default=DEFAULT_PORT, ge=1, le=65535)
    mixed: bool = False

    @property
    def sides(self) -> tuple[int, int] | None:
        """Width and height of `size` in pixels."""
        return sides_of(self.size, least=1) if self.size else None


class DrawOptions(ListOptions):
    """Options of a list of services with diffusion models."""

    steps: int | None = None
    guidance: float | None = None
    negative: str | None = None


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


def late_error(where: str, seconds: float) -> GeneratorError:
    """Return the error for a request that timed out."""
    return GeneratorError(
        f"{where} did not answer within {seconds:g} s.", "Increase the deadline, or reduce the steps."
    )


def request_digest(prompt: str, images: Sequence[Picture], seed: int) -> bytes:
    """Return a digest of a request, so that equal requests go to the same service."""
    drawn_from = f"{prompt}\0{seed}\0{' '.join(one.digest for one in images)}"
    return hashlib.blake2b(drawn_from.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def check_values(said: bytes, where: str) -> None:
    """Check that an answer does not have too many values. An image counts as one.

    Raises:
        GeneratorError: It has too many.
    """
    if said.count(b",") + said.count(b"[") + said.count(b"{") > MAX_ANSWER_VALUES:
        raise GeneratorError(f"{where} answered with more than {MAX_ANSWER_VALUES} values.")


def at_the_same_time(work: Sequence[Callable[[], None]], seconds: float, late: Exception) -> list[Exception]:
    """Run functions concurrently in daemon threads, which do not keep the process from ending.

    Args:
        work: Functions to run.
        seconds: Maximum time to wait for all.
        late: Error for each function that did not end in time.

    Returns:
        The errors.
    """
    arrived: SimpleQueue[Exception | None] = SimpleQueue()

    def done(one: Callable[[], None]) -> None:
        try:
            one()
        except Exception as error:  # noqa: BLE001 - returned to the caller
            arrived.put(error)
        else:
            arrived.put(None)

    until = time.monotonic() + seconds
    for one in work:
        threading.Thread(target=done, args=(one,), daemon=True).start()
    found: list[Exception | None] = []
    for _ in work:
        try:
            found.append(arrived.get(timeout=max(0.0, until - time.monotonic())))
        except Empty:
            found.append(late)
    return [error for error in found if error is not None]


def read_answer(kind: type[Answer], data: bytes, where: str, server: RemoteServer, what: str) -> Answer:
    """Return the answer in a JSON text.

    Args:
        kind: Its model.
        data: The text.
        where: URL of the route.
        server: The service.
        what: What an answer is: "an edited image".

    Raises:
        GeneratorError: It is not such an answer.
    """
    check_values(data, where)
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise GeneratorError(
            f"{where} did not return {what} ({first_fault(error).reason}): {server.quote(data)}",
            "Check that this server has the protocol of the generator.",
        ) from error


def decoded(content: str, server: RemoteServer, most: int) -> Picture:
    """Return an image in base64 with at most `most` pixels. Raises GeneratorError if it is invalid."""
    try:
        return Picture.from_base64(content, f"The image from {server.url}", most)
    except PictureError as error:
        raise GeneratorError(error.message, error.hint) from error


@dataclass(frozen=True)
class Maker:
    """The model of a service: its `identity` (`exact`), or some name, which may be empty."""

    name: str
    exact: bool = False


class Makers:
    """The models of a list of services, by address. `mixed` allows different ones.

    A service that reports an `identity` (those of this package do: weights and settings by digest) is
    recognized by it on any machine. One that reports only a name is identified by the name and its address,
    and one that reports nothing by its address.
    """

    def __init__(self, mixed: bool) -> None:
        self._mixed = mixed
        self._found: dict[str, Maker] = {}
        self._agreed: set[Maker] | None = None
        self._lock = threading.Lock()

    def add(self, url: str, maker: Maker) -> None:
        """Record the model of the service at `url`.

        Raises:
            GeneratorError: No service had this model when the list was opened.
        """
        with self._lock:
            if self._agreed is not None and maker not in self._agreed:
                known = ", ".join(sorted(repr(one.name) for one in self._agreed))
                raise GeneratorError(
                    f"{url} now has another model ({maker.name!r}) than the services at the start of this "
                    f"run ({known}).",
                    "Restart it with the model of the others.",
                )
            self._found[url] = maker

    def check(self) -> None:
        """Finish opening the list.

        Raises:
            SettingsError: The services have different models and are not allowed to.
        """
        with self._lock:
            found = set(self._found.values())
            if len(found) > 1 and not self._mixed:
                said = "; ".join(f"{url}: {one.name!r}" for url, one in sorted(self._found.items()))
                raise SettingsError(
                    f"The services have different models ({said[:1000]}).",
                    "List services with one model, or set mixed if an image may come from any of them.",
                )
            self._agreed = found

    def named(self, urls: tuple[str, ...]) -> str:
        """Return the models' part of an identity, for a list of these addresses."""
        found = sorted(set(self._found.values()), key=lambda one: (one.name, one.exact))
        exact = [f"model={one.name!r}" for one in found if one.exact]
        if len(exact) == len(found):
            return " ".join(exact)
        loose = ",".join(sorted(url for url in urls if not self._is_exact(url)))
        return " ".join([loose, *(f"model={one.name!r}" for one in found if one.name)])

    def _is_exact(self, url: str) -> bool:
        return url in self._found and self._found[url].exact


@dataclass(frozen=True)
class Reach:
    """Addresses of the services, and timeouts.

    Attributes:
        addresses: The services.
        deadline: Seconds for an image, including all retries.
        interrupted: Called several times a second. Requests stop when it returns True.
        mixed: Whether the services may have different models.
    """

    addresses: Addresses
    deadline: float = DEADLINE
    interrupted: Callable[[], bool] | None = None
    mixed: bool = False

    def __post_init__(self) -> None:
        check_seconds(deadline=self.deadline)


class ServiceClient(Generator):
    """Services that act as one generator. Opening it contacts all of them.

    Raises:
        GeneratorError: None of them answers.
        SettingsError: They have different models.
        Cancelled: Opening was interrupted.
    """

    greeting: str
    """Path of the page that describes a service."""
    _identity: str
    not_shown = NO_SUCH_PAGE
    """Statuses with which a working service may answer there."""
    key_variable = GENERATOR_KEY
    """Environment variable of the API key."""

    def __init__(self, reach: Reach) -> None:
        self.interrupted = reach.interrupted
        self._deadline = reach.deadline
        self._endpoints = Endpoints(reach.addresses, self._server, GeneratorError)
        self._services = Balanced(self._endpoints, self._greet)
        self._makers = Makers(reach.mixed)
        self._shown_unused: set[str] = set()
        self._greet_all()

    @property
    def identity(self) -> str:
        """Identity of the services' models and of the options of requests."""
        return self._identity

    @property
    def draws_at_once(self) -> int:
        """Number of concurrent images that keeps all services busy, 1 to MAX_AT_ONCE."""
        workers = sum(one.workers for one in self._endpoints.now() if not one.must_greet)
        return max(1, min(MAX_AT_ONCE, AHEAD * workers))

    @property
    def idle_workers(self) -> int:
        """Images that would start immediately, in addition to those in progress, 1 to MAX_AT_ONCE."""
        greeted = [one for one in self._endpoints.now() if not one.must_greet]
        idle = sum(max(0, one.workers - one.in_flight) for one in greeted)
        return max(1, min(MAX_AT_ONCE, idle))

    def stopped_by(self, over: threading.Event) -> Self:
        """Return the same services, whose requests end with Cancelled once `over` is set."""
        other = copy(self)
        asked_before = self.interrupted
        other.interrupted = lambda: over.is_set() or (asked_before is not None and asked_before())
        return other

    def _server(self, url: str) -> RemoteServer:
        """Return the server at a URL, with the key that it receives."""
        return RemoteServer(url, read_key(self.key_variable), GeneratorError)

    @abstractmethod
    def _read_greeting(self, endpoint: Endpoint, said: bytes) -> None:
        """Read what a service reports about itself.

        Raises:
            GeneratorError: The page is invalid.
            SettingsError: The model differs from that of the other services.
        """

    def _draw(self, question: ServiceQuery, digest: bytes, read: Read) -> Picture:
        """Return the first image that `read` finds in an answer. Raises GeneratorError, Cancelled."""
        several = len(self._endpoints.now()) > 1

        def ask(call: RemoteCall) -> Picture | GeneratorError:
            # If there are several services, one that is silent for half of the deadline is abandoned.
            first = self._deadline / 2 if several else self._deadline

            def once(endpoint: Endpoint) -> Picture | GeneratorError:
                said = asked(endpoint.server, call, question, min(first, call.seconds_left))
                try:
                    with endpoint.server.faults():
                        return read(endpoint.server, said)
                except GeneratorError as error:
                    raise Unanswered(error, "wrong") from None

            return self._services.ask(call, digest, once)

        found = self._carried_out(ask, self._deadline, f"{question.method} {self._where}{question.path}")
        if isinstance(found, GeneratorError):
            raise found
        return found

    def _log_unused(self, server: RemoteServer, said: Any) -> None:
        """Log the options that a service ignored, each once. Anything but a list is ignored.

        A service without an option generates anyway, because clients of the published services send their
        options to every model. An image that silently lacks an option would look like a fault of the model.
        """
        names = [one for one in said if isinstance(one, str)] if isinstance(said, list) else []
        shown = [server.quote(name[:MAX_NAME]) for name in names[:MAX_NAMES]]
        new = [name for name in shown if name not in self._shown_unused]
        new = new[: max(0, MAX_NAMES - len(self._shown_unused))]
        if new:
            self._shown_unused.update(new)
            LOG.warning("%s ignores these options: %s.", server.url, ", ".join(new))

    def _greet(self, endpoint: Endpoint, call: RemoteCall) -> None:
        page = ServiceQuery(
            "GET", self.greeting, MAX_GREETING_BYTES, missing=self.not_shown, key_variable=self.key_variable
        )
        said = asked(endpoint.server, call, page, min(GREETING_SECONDS, call.seconds_left))
        try:
            with endpoint.server.faults():
                self._read_greeting(endpoint, said)
        except GeneratorError as error:
            raise Unanswered(error, "down") from None

    def _greet_all(self) -> None:
        """Contact all services, and open with those that answer.

        If none answers, but one reports when it will be ready (it is loading its model), wait for it within
        the deadline.
        """
        until = time.monotonic() + self._deadline
        while True:
            known = self._endpoints.now()
            faults = self._greeted(known)
            for fault in faults:
                if not isinstance(fault, (GeneratorError, Unanswered)):
                    raise fault
            if len(faults) < len(known):
                return self._makers.check()
            waits = [(one.after or 0.0, one.error) for one in faults if isinstance(one, Unanswered)]
            if not waits:
                raise faults[0]
            after, error = min(waits, key=lambda one: one[0])
            if time.monotonic() + after > until:
                raise error
            LOG.warning("%s Retrying in %.0f s.", error.message, after)
            self._rest(max(after, LOOK_EVERY))

    def _greeted(self, known: Sequence[Endpoint]) -> list[Exception]:
        """Contact these services and return the errors of those that cannot be used."""
        seconds = min(self._deadline, GREETING_SECONDS)
        where = f"GET {self._where}{self.greeting}"

        def ask(call: RemoteCall) -> list[Exception]:
            greetings = [lambda one=one: self._greet_first(one, call) for one in known]
            return at_the_same_time(greetings, seconds, late_error(where, seconds))

        return self._carried_out(ask, seconds + MARGIN, where)

    def _rest(self, seconds: float) -> None:
        """Wait. Raises Cancelled."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.interrupted is not None and self.interrupted():
                raise Cancelled("The generation was stopped.")
            time.sleep(min(left, LOOK_EVERY))

    def _greet_first(self, endpoint: Endpoint, call: RemoteCall) -> None:
        def greet() -> None:
            try:
                self._greet(endpoint, call)
            except Unanswered as fault:
                if fault.after is not None:
                    raise
                raise (fault.error if fault.reason == "wrong" else Retryable(fault.error)) from None

        try:
            call.retried(greet)
        except Unanswered:
            self._endpoints.failed(endpoint)
            raise
        except GeneratorError as error:
            self._endpoints.failed(endpoint)
            message = f"{error.message.rstrip('.')} ({MAX_ATTEMPTS} attempts)."
            raise GeneratorError(message, error.hint) from None
        self._endpoints.answered(endpoint)

    def _carried_out(self, ask: Callable[[RemoteCall], Asked], seconds: float, where: str) -> Asked:
        """Return the result of `ask`. Raises GeneratorError after that many seconds, or Cancelled."""
        call = RemoteCall(seconds)

        def look_up(text: str) -> None:
            if self.interrupted is not None and self.interrupted():
                raise Cancelled("The generation was stopped.")

        look_up("")
        return call.carry_out(lambda take: ask(call), look_up, late_error(where, seconds))

    @property
    def _where(self) -> str:
        found = self._endpoints.now()
        others = f" and {len(found) - 1} more, " if len(found) > 1 else ""
        return f"{found[0].url}{others}"

    def _most_pixels(self, width: int, height: int) -> int:
        """Return the maximum pixels of an answer, which may be larger than requested."""
        return min(MAX_PIXELS, max(UNASKED_PIXELS, LARGER * width * height))
