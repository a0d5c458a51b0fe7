"""Calls into foreign code, a few at a time, each with a time-out: how drawing and scoring are kept from
stopping training.

Decision: every call has a daemon thread of its own, because a thread that hangs can neither be killed nor
waited for at the end of the process. Its slot stays taken until it comes back, so that code that is not made
for two callers at once never has two; when every slot is held by a call that hangs, further calls fail at
once instead of queueing for ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class CallTimeout(Exception):
    """The call did not come back in time, or cannot even start because earlier ones did not."""


class BoundedCalls:
    """At most `slots` calls at a time; `name` is for messages. To be used from one event loop after
    another."""

    def __init__(self, name: str, slots: int) -> None:
        self.name = name
        self.slots = slots
        self.stuck = 0
        self._free = slots
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._lock = threading.Lock()

    async def call(self, work: Callable[[], Result], seconds: float) -> Result:
        """What `work()` gives, run in a thread; its exceptions pass. Raises CallTimeout after `seconds` of
        running."""
        await self._enter()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        timed_out = threading.Event()

        def run() -> None:
            result: Result | None = None
            error: BaseException | None = None
            try:
                result = work()
            except BaseException as caught:  # noqa: BLE001 - carried to the caller, whatever it is
                error = caught
            try:
                loop.call_soon_threadsafe(self._finish, done, result, error, timed_out)
            except RuntimeError:
                # The loop is gone; only the slot is left to give back.
                self._leave(timed_out.is_set())

        threading.Thread(target=run, daemon=True, name=f"{self.name} call").start()
        try:
            return await asyncio.wait_for(asyncio.shield(done), seconds)
        except asyncio.TimeoutError:
            if done.done():  # it came back in the very turn of its time-out, and its slot is free again
                return done.result()
            self._give_up(timed_out)
            raise CallTimeout(f"{self.name} gave no answer within {seconds:g} s.") from None
        except asyncio.CancelledError:
            self._give_up(timed_out)
            raise

    async def _enter(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            if self.stuck >= self.slots:
                raise CallTimeout(f"{self.name} still hangs in {self.stuck} earlier call(s).")
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
                    waiter.set_exception(CallTimeout(f"{self.name} hangs in {self.stuck} earlier call(s)."))

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
            # Whoever gave up does not read it, which is no reason for a warning.
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
