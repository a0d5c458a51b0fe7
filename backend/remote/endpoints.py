"""Chooses which of several services gets the next request, and which ones are left alone for a while.

The service with the fewest pending requests is chosen, which needs no knowledge of their speed. Ties are
broken by a digest of the request, so that equal requests go to the same service, which has the answer cached.
A service that failed three times in a row rests for half a minute. Before it gets work again its health is
checked, as for a service that joined the list later, because a list must never mix models. A service that
announced when it will be free (Retry-After) is not used before that.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import InterleaveError
from .addresses import Addresses
from .server import RemoteServer

FAILURES_BEFORE_REST = 3
REST_SECONDS = 30.0
MAX_PAUSE = 3600.0
LOG = logging.getLogger(__name__)


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
                endpoint.busy_until = time.monotonic() + min(seconds, MAX_PAUSE)
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
