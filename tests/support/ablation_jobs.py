"""Work of the jobs in the ablation's tests.

They are not in the test files: a job runs in its own process, which imports the module of its function, and a
package `tests` cannot be imported there unless pytest was started as `python -m pytest`.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from interleave_thinker.backend.core.errors import SettingsError


def note(folder: Path, text: str) -> None:
    with (folder.parent / "order.txt").open("a") as file:
        file.write(f"{text}\n")


def fail(folder: Path) -> None:
    raise SettingsError("this job is broken", "mend it")


def fill_disk(folder: Path) -> None:
    raise OSError(28, "No space left on device")


def die(folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep_and_note(folder: Path) -> None:
    (folder / "pid").write_text(str(os.getpid()))
    time.sleep(60)
