"""What the jobs of the ablation's tests do.

Decision: they stand here and not beside the tests. A job runs in a process of its own, which imports the
module that its function comes from, and where pytest was not started as `python -m pytest` no package `tests`
can be imported there.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from interleave_thinker.backend.errors import SettingsError


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
