"""Calls to foreign code with a limit on parallel calls and a timeout, so that they cannot block a training.

Every call has its own daemon thread, because a hanging thread can neither be killed nor joined at the end of
the process. Its slot stays occupied until it returns, so that code that does not support parallel calls never
gets them. If hanging calls occupy all slots, further calls fail immediately instead of waiting forever.

Failures of recent calls are counted too. During a training, a few failures are not enough to decide. At its
end they are: a short run in which every redraw failed has learned nothing and must not appear complete.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from ...backend.core.errors import Cancelled, DrawRefused, InterleaveError, NotScorable, SettingsError

Result = TypeVar("Result")


class CallTimeout(Exception):
    """The call did not return in time, or cannot start because earlier ones did not return."""


class BoundedCalls:
    """Runs at most `slots` calls at a time, in one event loop at a time; `name` is used in messages."""

    def __init__(self, name: str, slots: int) -> None:
        self.name = name
        self.slots = slots
        self.stuck = 0
        self._free = slots
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._lock = threading.Lock()

    async def call(self, work: Callable[[], Result], seconds: float) -> Result:
        """Run `work()` in a thread and return its result; its exceptions are raised.

        Raises:
            CallTimeout: It did not return within `seconds`, or all slots are occupied by hanging calls.
        """
        await self._enter()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        timed_out = threading.Event()

        def run() -> None:
            result: Result | None = None
            error: BaseException | None = None
            try:
                result = work()
            except BaseException as caught:  # noqa: BLE001 - raised in the caller
                error = caught
            try:
                loop.call_soon_threadsafe(self._finish, done, result, error, timed_out)
            except RuntimeError:
                # The event loop is closed; only the slot must be released.
                self._leave(timed_out.is_set())

        threading.Thread(target=run, daemon=True, name=f"{self.name} call").start()
        try:
            return await asyncio.wait_for(asyncio.shield(done), seconds)
        except asyncio.TimeoutError:
            if done.done():  # it returned at the same moment; its slot is already free
                return done.result()
            self._give_up(timed_out)
            raise CallTimeout(f"{self.name} did not respond within {seconds:g} s.") from None
        except asyncio.CancelledError:
            self._give_up(timed_out)
            raise

    async def attempted(
        self,
        work: Callable[[], Result],
        seconds: float,
        attempts: int,
        pause: float,
        repeated: Callable[[], object] = lambda: None,
    ) -> Result:
        """Run `work()` up to `attempts` times, as `call` does; the exceptions of the last one are raised.

        Calls are not repeated after a timeout, or if another one would fail, too. The first pause takes
        `pause` seconds, each further one twice as long; `repeated` is called before each.
        """
        for number in range(attempts - 1):
            try:
                return await self.call(work, seconds)
            except (Cancelled, SettingsError, DrawRefused, NotScorable):
                raise
            except InterleaveError:
                repeated()
                await asyncio.sleep(pause * 2**number)
        return await self.call(work, seconds)

    async def _enter(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            if self.stuck >= self.slots:
                raise self._blocked()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._leave(False)
            raise

    def _give_up(self, timed_out: threading.Event) -> None:
        with self._lock:
            timed_out.set()
            self.stuck += 1
            if self.stuck < self.slots:
                return
            while self._waiting:
                waiter = self._waiting.popleft()
                if not waiter.done():
                    waiter.set_exception(self._blocked())

    def _blocked(self) -> CallTimeout:
        return CallTimeout(f"{self.name} is blocked by {self.stuck} earlier call(s) that did not return.")

    def _finish(
        self,
        done: asyncio.Future[Result],
        result: Result | None,
        error: BaseException | None,
        timed_out: threading.Event,
    ) -> None:
        self._leave(timed_out.is_set())
        if done.done():
            return
        if error is None:
            done.set_result(result)  # pyright: ignore[reportArgumentType]
        else:
            done.set_exception(error)
            # After a timeout the exception is not read; avoid asyncio's warning about it.
            done.exception()

    def _leave(self, was_stuck: bool) -> None:
        with self._lock:
            self.stuck -= was_stuck
            while self._waiting:
                waiter = self._waiting.popleft()
                if not waiter.done():
                    waiter.set_result(None)
                    return
            self._free += 1


WINDOW = 512
MIN_SEEN = 32


class Failures:
    """Counts the failures among the last `WINDOW` calls, which messages call `what`.

    More than the share `most` of failures is too many.
    """

    def __init__(self, what: str, most: float) -> None:
        self._what, self._most = what, most
        self._last: deque[bool] = deque(maxlen=WINDOW)
        self._fault = ""

    def add(self, failed: bool, fault: str = "") -> None:
        """Count a call, with the reason if it failed."""
        self._last.append(failed)
        self._fault = fault if failed else self._fault

    def problem(self, at_end: bool = False) -> str | None:
        """Return why there are too many failures, or None; under `MIN_SEEN` calls count only `at_end`."""
        failed, seen = sum(self._last), len(self._last)
        if (seen < MIN_SEEN and not at_end) or failed / max(1, seen) <= self._most:
            return None
        return (
            f"{failed} of the last {seen} {self._what} failed, more than the allowed "
            f"{self._most:.0%}; the last error: {self._fault}"
        )
