"""The common parts of the HTTP clients: a list of services that act as one generator.

A service is another machine, which can fail. A request goes to one service of the list, and to others as
remote/balanced.py decides. All of this shares one deadline and can be canceled at any time, which closes the
connections (remote/call.py). The services are contacted when the generator is opened, and opening succeeds if
one of them answers. Their models must be the same, because an image must not depend on the service that
generated it.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import TypeVar

from ...errors import Cancelled, GeneratorError, InterleaveError, SettingsError
from ...pictures import MAX_PIXELS, Picture
from ...remote.addresses import Addresses
from ...remote.api_keys import GENERATOR_KEY, read_key
from ...remote.balanced import GREETING_SECONDS, Balanced, Endpoint, Endpoints, Unanswered
from ...remote.call import MAX_ATTEMPTS, RemoteCall, Retryable
from ...remote.server import RemoteServer
from .asking import NO_SUCH_PAGE, ServiceQuery, asked
from .makers import Makers
from .request_parts import at_the_same_time, late_error
from .unused import UnusedOptions

DEADLINE = 300.0
MAX_GREETING_BYTES = 1024 * 1024
UNASKED_PIXELS = 16 * 1024 * 1024
LARGER = 4
MAX_AT_ONCE = 64
LOOK_EVERY = 0.2
"""Seconds between checks whether a wait was canceled."""
LOG = logging.getLogger(__name__)
MARGIN = 1.0
"""Seconds after the services' own deadline at which opening stops waiting for them."""
AHEAD = 2
"""Concurrent requests per worker of a service: one is being generated, one is on its way."""

Client = TypeVar("Client", bound="ServiceClient")
Read = Callable[[RemoteServer, bytes], Picture | GeneratorError]
"""Reads the image of an answer, or returns the error of a service that refuses to generate it.

Such a request is not sent to another service. Raises GeneratorError for an invalid answer.
"""


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
        if not 0 < self.deadline < math.inf:
            raise SettingsError(f"The deadline must be above 0 seconds, not {self.deadline}.")


class NotYet(GeneratorError):
    """A service answers that it will be ready `after` seconds."""

    def __init__(self, error: InterleaveError, after: float) -> None:
        super().__init__(error.message, error.hint)
        self.after = after


class ServiceClient(ABC):
    """Services that act as one generator. Opening it contacts all of them.

    Raises:
        GeneratorError: None of them answers.
        SettingsError: They have different models.
        Cancelled: Opening was interrupted.
    """

    greeting: str
    """Path of the page that describes a service."""
    not_shown = NO_SUCH_PAGE
    """Statuses with which a working service may answer there."""
    repeatable = True
    """Whether the same arguments give the same pixels."""
    key_variable = GENERATOR_KEY
    """Environment variable of the API key."""

    def __init__(self, reach: Reach) -> None:
        self.interrupted = reach.interrupted
        self._deadline = reach.deadline
        self._endpoints = Endpoints(reach.addresses, self._server, GeneratorError)
        self._services = Balanced(self._endpoints, self._greet)
        self._makers = Makers(reach.mixed)
        self._unused = UnusedOptions()
        self._greet_all()

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

    @abstractmethod
    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate one image.

        Raises:
            GeneratorError: The generation failed.
            Cancelled: The generation was interrupted.
        """

    def draw_many(
        self, prompts: Sequence[str], sources: Sequence[Picture | None], seeds: Sequence[int]
    ) -> list[Picture]:
        """Generate several images, each as `draw` would, with all services at once.

        The first failure stops the others.

        Raises:
            GeneratorError: The generation of an image failed.
            Cancelled: The generation was interrupted.
        """
        if not prompts:
            return []
        over = threading.Event()
        drawer = self.stopped_by(over)
        with ThreadPoolExecutor(min(len(prompts), self.draws_at_once), "draws of services") as pool:
            under_way = [pool.submit(drawer.draw, *one) for one in zip(prompts, sources, seeds, strict=True)]
            try:
                return [one.result() for one in under_way]
            except BaseException:
                over.set()
                for one in under_way:
                    one.cancel()
                raise

    def stopped_by(self: Client, over: threading.Event) -> Client:
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
            unusable = next((error for error in faults if not isinstance(error, GeneratorError)), None)
            if unusable is not None:
                raise unusable
            if len(faults) < len(known):
                return self._makers.check()
            waiting = [one for one in faults if isinstance(one, NotYet)]
            soonest = min(waiting, key=lambda one: one.after, default=None)
            if soonest is None or time.monotonic() + soonest.after > until:
                raise soonest or faults[0]
            LOG.warning("%s Retrying in %.0f s.", soonest.message, soonest.after)
            self._rest(soonest.after)

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
                if fault.reason == "busy" and fault.after is not None:
                    raise NotYet(fault.error, max(fault.after, LOOK_EVERY)) from None
                raise (fault.error if fault.reason == "wrong" else Retryable(fault.error)) from None

        try:
            call.retried(greet)
        except NotYet:
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


Asked = TypeVar("Asked")
