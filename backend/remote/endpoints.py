"""Which of several services is asked next, and which one is left in peace for a while.

Decision: the one with the fewest requests of ours under way, since that needs no knowledge of how fast each
is. Ties are broken by a digest of the request, so that equal requests meet at the same service, which then
has the answer already. A service that failed three times in a row rests for half a minute and is greeted (its
health is asked for) before it gets work again, as is one that joined the list later: a list must never mix
makers. One that said when it will have room (Retry-After) is not asked before that.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
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
    """Nothing is known of it, or it rested."""
    workers: int = 1
    """Requests that it works on at once, as far as it says."""
    is_named: bool = False
    """It was said that it is none of those services."""
    is_greeted: bool = False
    """Somebody is asking it how it is."""

    @property
    def url(self) -> str:
        return self.server.url


class Endpoints:
    """The services at these addresses, which are shown `key`; their faults become `kind`. For many
    threads."""

    def __init__(self, addresses: Addresses, key: str | None, kind: type[InterleaveError]) -> None:
        self._addresses = addresses
        self._key, self.kind = key, kind
        self._lock = threading.Lock()
        self._all: dict[str, Endpoint] = {}
        self.now()

    def now(self) -> list[Endpoint]:
        """Those of the list as it is now; one that left it finishes what it works on."""
        with self._lock:
            urls = self._addresses.now() if self._addresses.can_change or not self._all else tuple(self._all)
            if urls != tuple(self._all):
                self._all = {
                    url: self._all.get(url) or Endpoint(RemoteServer(url, self._key, self.kind))
                    for url in urls
                }
            return list(self._all.values())

    def take(self, digest: bytes, without: set[str]) -> Endpoint | None:
        """The one to ask next, counted as under way until `give_back`; None if all of them were tried
        (`without`: URLs), have no room yet or rest."""
        found, now = self.now(), time.monotonic()
        with self._lock:
            awake = [one for one in found if one.rests_until <= now]
            # With all of them at rest there is nobody to spare: the first to come back is asked how it is.
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
        """Those that may come (back) to work while others do it; each is named once until it `answered` or
        `failed`."""
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
        """Seconds until one of them has room again, as far as they say; 0.0 if one has."""
        now = time.monotonic()
        with self._lock:
            return min(max(0.0, one.busy_until - now) for one in self._all.values())

    def give_back(self, endpoint: Endpoint) -> None:
        """Nothing more is under way there of what `take` counted."""
        with self._lock:
            endpoint.in_flight -= 1

    def answered(self, endpoint: Endpoint) -> None:
        """It does its work."""
        with self._lock:
            endpoint.failures, endpoint.busy_until, endpoint.rests_until = 0, 0.0, 0.0
            endpoint.must_greet = endpoint.is_greeted = False

    def busy(self, endpoint: Endpoint, seconds: float | None) -> None:
        """It has no room, for so many seconds if it said so."""
        if seconds is not None:
            with self._lock:
                endpoint.busy_until = time.monotonic() + min(seconds, MAX_PAUSE)
        else:
            self.failed(endpoint)

    def wrong(self, endpoint: Endpoint, error: InterleaveError) -> None:
        """What it sent is no answer of such a service: beside others it rests, and is named the first
        time."""
        with self._lock:
            if len(self._all) == 1:
                return
            if not endpoint.is_named:
                LOG.warning("%s is left out: %s", endpoint.url, error)
            endpoint.is_named = endpoint.must_greet = True
            endpoint.is_greeted = False
            endpoint.rests_until = time.monotonic() + REST_SECONDS

    def failed(self, endpoint: Endpoint) -> None:
        """It did not answer; after FAILURES_BEFORE_REST times in a row, or when it was only greeted, it
        rests."""
        with self._lock:
            endpoint.failures += 1
            endpoint.is_greeted = False
            if endpoint.failures < FAILURES_BEFORE_REST and not endpoint.must_greet:
                return
            if not endpoint.must_greet and len(self._all) > 1:
                LOG.warning("%s failed %d times and rests.", endpoint.url, endpoint.failures)
            endpoint.must_greet = True
            endpoint.rests_until = time.monotonic() + REST_SECONDS


def _rank(url: str, digest: bytes) -> bytes:
    return hashlib.blake2b(url.encode() + digest, digest_size=8).digest()
