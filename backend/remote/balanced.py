"""One request to whichever of several services answers it.

Decision: a service that fails costs nothing but the way to the next one; only when all were tried is there a
pause, of a random length up to a bound that doubles (full jitter), because clients that wait equally long
come back together. What a service says about its room (Retry-After) is obeyed; where that does not fit into
the time that the request has, it fails at once and says so. A service that is late may still be at work, so
only one other is asked. One that answers as no such service does is not asked again for the same request. Six
tries are enough, or one for every service where there are more.
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
    """A service gave no answer to a request that another one may answer. `error` is what is raised if none
    does; `after`: seconds after which it wants to be asked again."""

    def __init__(self, error: InterleaveError, reason: Reason, after: float | None = None) -> None:
        super().__init__(error.message)
        self.error, self.reason, self.after = error, reason, after


class Balanced:
    """Asks services one after another until one answers. `greet` asks a service that is not known yet, or
    not any more, how it is; it raises Unanswered, or what ends the request."""

    def __init__(self, endpoints: Endpoints, greet: Callable[[Endpoint, RemoteCall], None]) -> None:
        self.endpoints = endpoints
        self._greet = greet

    def ask(self, call: RemoteCall, digest: bytes, once: Callable[[Endpoint], Answer]) -> Answer:
        """The answer of `once`, which asks one service and raises Unanswered where another may do better.
        Raises an error that says of each what it did, and whatever else `once` raises."""
        tried: set[str] = set()
        wrong: set[str] = set()
        faults: dict[str, Unanswered] = {}
        tries = rounds = late = 0
        last: Unanswered | None = None
        while True:
            self._greet_others()
            endpoint = self.endpoints.take(digest, tried | wrong)
            if endpoint is None:
                self._pause(call, rounds, last)
                tried.clear()
                rounds += 1
                continue
            tries += 1
            try:
                return self._ask_one(call, endpoint, once)
            except Unanswered as fault:
                last = fault
                faults.pop(endpoint.url, None)
                faults[endpoint.url] = fault
                (wrong if fault.reason == "wrong" else tried).add(endpoint.url)
                late += fault.reason == "late"
                known = {one.url for one in self.endpoints.now()}
                over = tries >= max(MAX_ATTEMPTS, len(known)) or late >= MAX_LATE_ATTEMPTS or known <= wrong
                if over or call.hung_up.is_set():
                    raise self._given_up(list(faults.values()), tries) from None

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
        """Have those that rested asked how they are, by nobody who waits for an image."""

        def greet(endpoint: Endpoint) -> None:
            call = RemoteCall(GREETING_SECONDS)
            try:
                self._greet(endpoint, call)
            except (Unanswered, InterleaveError) as fault:
                LOG.info("%s stays away: %s", endpoint.url, fault)
                self.endpoints.failed(endpoint)
            else:
                self.endpoints.answered(endpoint)
            finally:
                call.hang_up()

        for one in self.endpoints.to_greet():
            threading.Thread(target=greet, args=(one,), name="interleave-greeting", daemon=True).start()

    def _pause(self, call: RemoteCall, rounds: int, last: Unanswered | None) -> None:
        """Wait until it is sensible to ask again; raises the last error if that is after the deadline."""
        full = self.endpoints.kind("No service has room at the moment.", "Ask later, or name more services.")
        error = last.error if last is not None else full
        room = self.endpoints.wait_for_one()
        if room > min(call.seconds_left, MAX_ASKED_FOR):
            hint = "Set a later deadline, or name more services."
            raise self.endpoints.kind(too_late(error.message, room), hint) from None
        longest = min(MAX_PAUSE, FIRST_PAUSE * 2**rounds)
        call.hung_up.wait(min(room + random.uniform(0.0, longest), call.seconds_left))
        if call.hung_up.is_set() or not call.seconds_left:
            raise error from None

    def _given_up(self, faults: Sequence[Unanswered], tries: int) -> InterleaveError:
        """What is raised in the end: the last fault of each service, the latest first."""
        *others, last = faults
        count = len(self.endpoints.now())
        asked = f"{tries} tries" if count == 1 else f"{tries} tries of {count} services"
        if tries == 1:
            return last.error
        said = [f"{last.error.message.rstrip('.')} ({asked})"]
        said += [one.error.message.rstrip(".") for one in reversed(others[-MAX_NAMED:])]
        said += [f"and {len(others) - MAX_NAMED} more"] if len(others) > MAX_NAMED else []
        return self.endpoints.kind(f"{'; '.join(said)}.", last.error.hint)
