"""Runs one program for as long as somebody holds this process's standard input open; run by path, alone.

Decision: a server must not outlive who started it, even one that was killed and could clean up nothing. No
call of Python ends a child with its parent on every system (on Linux the kernel does, but when the *thread*
that started it ends; on macOS it does not at all), while every system closes the pipes of a process that has
ended, however it did. So this little process stands between: it starts the program, waits for the end of its
standard input, and then ends the program. Should it be killed itself, the kernel ends the program on Linux,
since here the thread that starts it is the one that stays. It imports nothing of the package, since it runs
isolated.
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
"""Seconds between the polite end and the other one."""
PR_SET_PDEATHSIG = 1
"""Of Linux's prctl: the signal that a process gets when the one that started it ends."""


def die_with(parent: int, prctl: Callable[..., int]) -> None:
    """Run in the program's process before it is the program: it is killed when `parent` ends."""
    prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def main() -> int:
    """Run `sys.argv[1:]`; its exit status (128 and the signal's number for one that a signal ended)."""
    before = None
    if sys.platform == "linux":
        # Looked up here: between fork and exec nothing may be loaded.
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
    # Without the interpreter's own ending, which would wait for the thread that reads.
    os._exit(main())
