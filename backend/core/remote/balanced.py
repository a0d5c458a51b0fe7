"""Sends a request to one of several services, and to others if it fails.

The service with the fewest pending requests is chosen, which needs no knowledge of their speed. Ties are
broken by a digest of the request, so that equal requests go to the same service, which has the answer cached.
A service that failed three times in a row rests for half a minute. Before it gets work again its health is
checked, as for a service that joined the list later, because a list must never mix models.

Only after all services were tried is there a pause, of random length up to a bound that doubles (full
jitter), because clients with equal pauses return together. A service's Retry-After is respected. If it
exceeds the request's remaining time, the request fails at once with that message. A service that timed out
may still be working, so only one other service is tried. A service of the wrong kind is not tried again for
the same request. There are at most six attempts, or one per service if there are more services.
"""

from __future__ import annotations

import hashlib
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from ..errors import InterleaveError
from .addresses import Addresses
from .call import FIRST_PAUSE, MAX_ASKED_FOR, MAX_PAUSE, Moment, RemoteCall, too_late
from .server import RemoteServer

FAILURES_BEFORE_REST = 3
REST_SECONDS = 30.0
MAX_BUSY_SECONDS = 3600.0
LOG = logging.getLogger(__name__)
MAX_ATTEMPTS = 6
MAX_LATE_ATTEMPTS = 2
GREETING_SECONDS = 10.0
Answer = TypeVar("Answer")
Reason = Moment | Literal["wrong"]
MAX_NAMED = 8


@dataclass(eq=False)
class Endpoint:
    """A service as this client sees it. Times are of the monotonic clock."""

    server: RemoteServer
    in_flight: int = 0
    failures: int = 0
    busy_until: float = 0.0
    rests_until: float = 0.0
    must_greet: bool = True
    """Whether it must be checked before use, because it is new or has rested."""
    workers: int = 1
    """Number of requests that it processes concurrently, as far as it reports."""
    is_named: bool = False
    """Whether the log reported already that it is of the wrong kind."""
    is_greeted: bool = False
    """Whether a check is in progress."""

    @property
    def url(self) -> str:
        """The URL of the service."""
        return self.server.url


class Endpoints:
    """The services at these addresses. Thread-safe.

    Args:
        addresses: The list of services.
        server: Returns the server at a URL of the list.
        kind: Class of errors.
    """

    def __init__(
        self, addresses: Addresses, server: Callable[[str], RemoteServer], kind: type[InterleaveError]
    ) -> None:
        self._addresses = addresses
        self._server, self.kind = server, kind
        self._lock = threading.Lock()
        self._all: dict[str, Endpoint] = {}
        self.now()

    def now(self) -> list[Endpoint]:
        """Return the current services. One that left the list finishes its pending requests."""
        with self._lock:
            urls = self._addresses.now() if self._addresses.can_change or not self._all else tuple(self._all)
            if urls != tuple(self._all):
                self._all = {url: self._all.get(url) or Endpoint(self._server(url)) for url in urls}
            return list(self._all.values())

    def take(self, digest: bytes, without: set[str]) -> Endpoint | None:
        """Choose the next service and count a pending request for it, until `give_back`.

        Args:
            digest: Digest of the request.
            without: URLs to exclude.

        Returns:
            The service, or None if all were tried, are busy or rest.
        """
        found, now = self.now(), time.monotonic()
        with self._lock:
            awake = [one for one in found if one.rests_until <= now]
            # If all of them rest, use the one whose rest ends first, after checking it.
            ready = [
                one
                for one in awake or sorted(found, key=lambda one: one.rests_until)[:1]
                if one.url not in without and one.busy_until <= now
            ]
            if not ready:
                return None
            known = [one for one in ready if not one.must_greet]
            chosen = min(known or ready, key=lambda one: (one.in_flight, _rank(one.url, digest)))
            chosen.in_flight += 1
            return chosen

    def to_greet(self) -> list[Endpoint]:
        """Return the services to check while others work.

        Each is returned once until it `answered` or `failed`.
        """
        now = time.monotonic()
        with self._lock:
            found = [
                one
                for one in self._all.values()
                if one.must_greet and one.rests_until <= now and not one.is_greeted
            ]
            if len(found) == len(self._all):
                return []
            for one in found:
                one.is_greeted = True
            return found

    def wait_for_one(self) -> float:
        """Return the seconds until a service is free, as far as they report, or 0.0."""
        now = time.monotonic()
        with self._lock:
            return min(max(0.0, one.busy_until - now) for one in self._all.values())

    def give_back(self, endpoint: Endpoint) -> None:
        """Record the end of a request that `take` counted."""
        with self._lock:
            endpoint.in_flight -= 1

    def answered(self, endpoint: Endpoint) -> None:
        """Record that a service works."""
        with self._lock:
            endpoint.failures, endpoint.busy_until, endpoint.rests_until = 0, 0.0, 0.0
            endpoint.must_greet = endpoint.is_greeted = False

    def busy(self, endpoint: Endpoint, seconds: float | None) -> None:
        """Record that a service is busy, for `seconds` if it reported that."""
        if seconds is not None:
            with self._lock:
                endpoint.busy_until = time.monotonic() + min(seconds, MAX_BUSY_SECONDS)
        else:
            self.failed(endpoint)

    def wrong(self, endpoint: Endpoint, error: InterleaveError) -> None:
        """Record that a service is of the wrong kind. It rests, unless it is the only one. Logged once."""
        with self._lock:
            if len(self._all) == 1:
                return
            if not endpoint.is_named:
                LOG.warning("%s is not used: %s", endpoint.url, error)
            endpoint.is_named = endpoint.must_greet = True
            endpoint.is_greeted = False
            endpoint.rests_until = time.monotonic() + REST_SECONDS

    def failed(self, endpoint: Endpoint) -> None:
        """Record that a service did not answer.

        It rests after FAILURES_BEFORE_REST failures in a row, or if the failed request was a check.
        """
        with self._lock:
            endpoint.failures += 1
            endpoint.is_greeted = False
            if endpoint.failures < FAILURES_BEFORE_REST and not endpoint.must_greet:
                return
            if not endpoint.must_greet and len(self._all) > 1:
                LOG.warning(
                    "%s failed %d times and is not used for a while.", endpoint.url, endpoint.failures
                )
            endpoint.must_greet = True
            endpoint.rests_until = time.monotonic() + REST_SECONDS


def _rank(url: str, digest: bytes) -> bytes:
    return hashlib.blake2b(url.encode() + digest, digest_size=8).digest()


class Unanswered(Exception):
    """A service did not answer a request that another one may answer.

    Attributes:
        error: Error to raise if no service answers.
        reason: Kind of the failure.
        after: Seconds to wait before the next request to it, if it asked for that.
    """

    def __init__(self, error: InterleaveError, reason: Reason, after: float | None = None) -> None:
        super().__init__(error.message)
        self.error, self.reason, self.after = error, reason, after


class Balanced:
    """Sends requests to services, one after another, until one answers.

    Args:
        endpoints: The services.
        greet: Checks a service that is new or was resting. It raises Unanswered, or an error that ends the
            request.
    """

    def __init__(self, endpoints: Endpoints, greet: Callable[[Endpoint, RemoteCall], None]) -> None:
        self.endpoints = endpoints
        self._greet = greet

    def ask(self, call: RemoteCall, digest: bytes, once: Callable[[Endpoint], Answer]) -> Answer:
        """Return the result of `once`, which sends the request to one service.

        Args:
            call: Deadline and cancellation.
            digest: Digest of the request.
            once: Sends the request. It raises Unanswered if another service may answer.

        Raises:
            InterleaveError: All services failed. The message lists the failure of each.
        """
        tried: set[str] = set()
        wrong: set[str] = set()
        faults: dict[str, Unanswered] = {}
        attempts = rounds = late = 0
        last: Unanswered | None = None
        while True:
            self._greet_others()
            endpoint = self.endpoints.take(digest, tried | wrong)
            if endpoint is None:
                self._pause(call, rounds, last)
                tried.clear()
                rounds += 1
                continue
            attempts += 1
            try:
                return self._ask_one(call, endpoint, once)
            except Unanswered as fault:
                last = fault
                faults.pop(endpoint.url, None)
                faults[endpoint.url] = fault
                (wrong if fault.reason == "wrong" else tried).add(endpoint.url)
                late += fault.reason == "late"
                known = {one.url for one in self.endpoints.now()}
                over = (
                    attempts >= max(MAX_ATTEMPTS, len(known)) or late >= MAX_LATE_ATTEMPTS or known <= wrong
                )
                if over or call.hung_up.is_set():
                    raise self._given_up(list(faults.values()), attempts) from None

    def _ask_one(self, call: RemoteCall, endpoint: Endpoint, once: Callable[[Endpoint], Answer]) -> Answer:
        try:
            if endpoint.must_greet:
                self._greet(endpoint, call)
                self.endpoints.answered(endpoint)
            answer = once(endpoint)
        except Unanswered as fault:
            if fault.reason == "wrong":
                self.endpoints.wrong(endpoint, fault.error)
            elif fault.reason == "busy":
                self.endpoints.busy(endpoint, fault.after)
            else:
                self.endpoints.failed(endpoint)
            raise
        finally:
            self.endpoints.give_back(endpoint)
        self.endpoints.answered(endpoint)
        return answer

    def _greet_others(self) -> None:
        """Check the services that have rested, in threads of their own, so that no request waits for it."""

        def greet(endpoint: Endpoint) -> None:
            call = RemoteCall(GREETING_SECONDS)
            try:
                self._greet(endpoint, call)
            except (Unanswered, InterleaveError) as fault:
                LOG.info("%s is not used yet: %s", endpoint.url, fault)
                self.endpoints.failed(endpoint)
            else:
                self.endpoints.answered(endpoint)
            finally:
                call.hang_up()

        for one in self.endpoints.to_greet():
            threading.Thread(target=greet, args=(one,), name="interleave-greeting", daemon=True).start()

    def _pause(self, call: RemoteCall, rounds: int, last: Unanswered | None) -> None:
        """Wait before the next round. Raises the last error if that would exceed the deadline."""
        full = self.endpoints.kind("All services are busy.", "Try again later, or list more services.")
        error = last.error if last is not None else full
        room = self.endpoints.wait_for_one()
        if room > min(call.seconds_left, MAX_ASKED_FOR):
            hint = "Increase the deadline, or list more services."
            raise too_late(self.endpoints.kind, error.message, room, hint) from None
        longest = min(MAX_PAUSE, FIRST_PAUSE * 2**rounds)
        call.hung_up.wait(min(room + random.uniform(0.0, longest), call.seconds_left))
        if call.hung_up.is_set() or not call.seconds_left:
            raise error from None

    def _given_up(self, faults: Sequence[Unanswered], attempts: int) -> InterleaveError:
        """Return the final error: the last failure of each service, the latest first."""
        *others, last = faults
        count = len(self.endpoints.now())
        asked = f"{attempts} attempts" if count == 1 else f"{attempts} attempts with {count} services"
        if attempts == 1:
            return last.error
        said = [f"{last.error.message.rstrip('.')} ({asked})"]
        said += [one.error.message.rstrip(".") for one in reversed(others[-MAX_NAMED:])]
        said += [f"and {len(others) - MAX_NAMED} more"] if len(others) > MAX_NAMED else []
        return self.endpoints.kind(f"{'; '.join(said)}.", last.error.hint)
