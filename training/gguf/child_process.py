"""Runs a program of others as a child process, with a deadline and in a restricted environment.

It sees no key and no model hub, and its home folder is empty. It ends when this process ends, however that
ends (the supervisor of backend/chat/llamacpp). Its output goes to a log; if it fails, the last line is
reported.
"""

from __future__ import annotations

import os
import re
import signal
import site
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...backend.chat.llamacpp import supervisor
from ...backend.errors import TrainingError
from ...backend.machine.environment import restricted
from ...backend.shown_text import one_line

SECONDS = 6 * 3600.0
"""Deadline of a program. The largest models on a slow disk take hours."""
STOP_SECONDS = 10.0
LAST_BYTES = 4096
SHOWN = 300
MISSING = re.compile(r"No module named '([\w.]+)'")
UNKNOWN = re.compile(r"not recognized|not supported|unknown|unrecognized|invalid ftype", re.IGNORECASE)


def run_program(
    name: str, command: Sequence[str], log: Path, home: Path, seconds: float | None = None
) -> None:
    """Run a program until it ends.

    Args:
        name: Name for error messages.
        command: The program and its arguments.
        log: File that its output is appended to.
        home: Folder for its home and its temporary files, which is also its working folder.
        seconds: Deadline. Default: `SECONDS`.

    Raises:
        TrainingError: It cannot be started, fails or exceeds the deadline.
    """
    limit = SECONDS if seconds is None else seconds
    # Packages that were installed with `pip install --user` are found in spite of the empty home.
    environment = restricted(home.absolute(), PYTHONUSERBASE=site.getuserbase())
    watched = [sys.executable, "-I", "-S", str(supervisor.__file__), *command]
    child: subprocess.Popen[bytes] | None = None
    begin = 0
    try:
        with log.open("ab") as output:
            begin = output.tell()
            child = subprocess.Popen(
                watched, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, cwd=home,
                env=environment, start_new_session=os.name == "posix",
            )  # fmt: skip
        status = child.wait(limit)
    except OSError as error:
        raise TrainingError(f"Cannot run {name} ({error.strerror or error}).") from error
    except subprocess.TimeoutExpired as error:
        raise TrainingError(
            f"{name} did not finish within {limit:g} s: {_last_line(log, begin)}.",
            f"Read its output in {str(log)!r}.",
        ) from error
    finally:
        if child is not None:
            _end(child)
    if status:
        line = _last_line(log, begin)
        raise TrainingError(f"{name} exited with status {status}: {line}.", _hint(line, command[0], log))


def _hint(line: str, program: str, log: Path) -> str:
    missing = MISSING.search(line)
    if missing is not None:
        return (
            f"Install it for {program!r}: pip install {missing[1].partition('.')[0]}. Or name another Python "
            "with --converter-python."
        )
    read = f"Read its output in {str(log)!r}."
    return f"{read} If the model is too new for it, update llama.cpp." if UNKNOWN.search(line) else read


def _last_line(log: Path, begin: int) -> str:
    """Return the last line of output that is not empty, of a program whose output begins there."""
    try:
        with log.open("rb") as file:
            file.seek(max(begin, log.stat().st_size - LAST_BYTES))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
    except OSError:
        return "its log cannot be read"
    return one_line(next((line for line in reversed(lines) if line), "it printed nothing"))[:SHOWN].rstrip(
        "."
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the program and everything that it started, whether or not it is still running."""
    assert child.stdin is not None
    with suppress(OSError):
        child.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        child.wait(STOP_SECONDS)
    if os.name == "posix":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    elif child.poll() is None:
        child.kill()
    child.wait()
