"""Sends a request to one of several services, and to others if it fails.

A failed service costs only the way to the next one. Only after all services were tried is there a pause, of
random length up to a bound that doubles (full jitter), because clients with equal pauses return together. A
service's Retry-After is respected. If it exceeds the request's remaining time, the request fails at once with
that message. A service that timed out may still be working, so only one other service is tried. A service of
the wrong kind is not tried again for the same request. There are at most six attempts, or one per service if
there are more services.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from ..errors import InterleaveError
from .call import RemoteCall
from .endpoints import Endpoint, Endpoints
from .retrying import FIRST_PAUSE, MAX_ASKED_FOR, MAX_PAUSE, Moment, too_late

MAX_ATTEMPTS = 6
MAX_LATE_ATTEMPTS = 2
GREETING_SECONDS = 10.0
LOG = logging.getLogger(__name__)

Answer = TypeVar("Answer")
Reason = Moment | Literal["wrong"]
MAX_NAMED = 8


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
            raise self.endpoints.kind(too_late(error.message, room), hint) from None
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
