"""Runs work in a forked child with everything imported, so that the work itself is measured or killed."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

POLL = 0.0005


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code (negative: the signal that killed it) and its peak resident memory."""

    code: int
    peak_bytes: int

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


def forked(work: Callable[[], object], seconds: float) -> Ended:
    """Run the work in a child, and kill the child (SIGKILL) if it takes longer than this.

    Exit code 0 means that the work returned, 99 that it raised; its traceback is then on the child's stderr.
    """
    child = os.fork()
    if child == 0:
        code = 99
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - the parent sees the exit code
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        number, status, usage = os.wait4(child, os.WNOHANG)
        if number:
            break
        time.sleep(POLL)
    else:
        os.kill(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
    return Ended(os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024)
