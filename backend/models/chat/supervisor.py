"""Runs one program while its standard input is held open by another process. It is run by its path.

A server must not outlive the process that started it, even if that was killed without cleaning up. No Python
call ends a child with its parent on every system: on Linux the kernel can, but it reacts to the end of the
*thread* that started the child; macOS cannot at all. But every system closes the pipes of a process that has
ended. So this small process is in between: it starts the program, waits for the end of its standard input,
and then ends the program. If this process itself is killed, the kernel ends the program on Linux, since here
the starting thread is the main thread. It does not import the package, since it runs isolated.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial

PATIENCE = 5.0
"""Seconds between the request to end and the kill."""
PR_SET_PDEATHSIG = 1
"""Option of Linux's prctl: the signal that a process gets when its parent ends."""


def die_with(parent: int, prctl: Callable[..., int]) -> None:
    """Make the kernel kill this process when `parent` ends. Runs in the child, before the program starts."""
    prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def main() -> int:
    """Run `sys.argv[1:]` and return its exit status (128 plus the signal's number if a signal ended it)."""
    before = None
    if sys.platform == "linux":
        # Looked up here, since nothing may be loaded between fork and exec.
        before = partial(die_with, os.getpid(), ctypes.CDLL(None).prctl)
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, preexec_fn=before)

    def end(*_: object) -> None:
        child.terminate()
        try:
            child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()

    def end_with_the_pipe() -> None:
        while os.read(0, 4096):
            pass
        end()

    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=end, daemon=True).start())
    threading.Thread(target=end_with_the_pipe, daemon=True).start()
    status = child.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    # Skip the interpreter's shutdown, which would wait for the reading thread.
    os._exit(main())
