"""Runs one program for as long as somebody holds this process's standard input open; run by path, alone.

Decision: a server must not outlive who started it, even one that was killed and could clean up nothing. No
call of Python ends a child with its parent on every system (on Linux the kernel does, but when the *thread*
that started it ends; on macOS it does not at all), while every system closes the pipes of a process that has
ended, however it did. So this little process stands between: it starts the program, waits for the end of its
standard input, and then ends the program. It imports nothing of the package, since it runs isolated.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

PATIENCE = 5.0
"""Seconds between the polite end and the other one."""


def main() -> int:
    """Run `sys.argv[1:]`; its exit status (128 and the signal's number for one that a signal ended)."""
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)

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
