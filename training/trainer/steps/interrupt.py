"""Ctrl-C during a training: once stops it, so that it can be resumed; twice ends it and keeps its result.

The signal's handler does nothing in forked processes (workers that load images): the terminal sends Ctrl-C to
them too, and without workers the training could not reach the end of its step.
"""

from __future__ import annotations

import _thread
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SECONDS = 5.0
"""Time for the second Ctrl-C."""
Log = Callable[[str], None]


class TwoInterrupts:
    """Handles SIGINT: the first waits for a second one, the second calls `end`, any other one stops."""

    def __init__(self, end: Callable[[], None], log: Log, seconds: float = SECONDS) -> None:
        self._end, self._log, self._seconds = end, log, seconds
        self._owner = os.getpid()
        self._count = 0
        self._timer: threading.Timer | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal.

        Raises:
            KeyboardInterrupt: No second one followed in time, or the user insists.
        """
        if os.getpid() != self._owner:
            return
        self._count += 1
        if self._count == 1:
            self._say(
                f"interrupted: press Ctrl-C again within {self._seconds:g} seconds to end the training after "
                "this step and keep its result; otherwise it stops, and the same command resumes it"
            )
            # The timer's thread cannot raise in this one, so it sends the signal again, as a third one.
            self._timer = threading.Timer(self._seconds, self._expired)
            self._timer.daemon = True
            self._timer.start()
        elif self._count == 2:
            self.forget()
            self._end()
            self._say("ending after this step; Ctrl-C once more stops at once")
        else:
            raise KeyboardInterrupt

    def forget(self) -> bool:
        """Do not wait for a second signal any longer, and return whether one was waited for."""
        if self._timer is not None:
            self._timer.cancel()
        return self._count == 1

    def _expired(self) -> None:
        self._count = max(self._count, 2)
        main = threading.main_thread().ident
        if main is not None and hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main, signal.SIGINT)  # also ends a wait of the main thread
        else:
            _thread.interrupt_main()

    def _say(self, line: str) -> None:
        with suppress(RuntimeError):  # the signal may arrive while the same stream is written to
            self._log(line)


@contextmanager
def two_interrupts(end: Callable[[], None], log: Log, seconds: float = SECONDS) -> Iterator[None]:
    """Call `end` when the user presses Ctrl-C twice within the block.

    Other programs that handle the signal themselves, other threads, and processes of a distributed launcher
    (which stops all of them) keep their own handling.

    Raises:
        KeyboardInterrupt: The user pressed it once.
    """
    alone = os.environ.get("WORLD_SIZE", "1") == "1"
    is_main = threading.current_thread() is threading.main_thread()
    if not alone or not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    handler = TwoInterrupts(end, log, seconds)
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        waited = handler.forget()
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if waited:  # the last step ended before the user pressed Ctrl-C again, or did not
        raise KeyboardInterrupt
