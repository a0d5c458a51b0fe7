"""Environment variables: the only module that reads them for code that runs in ComfyUI.

A variable is set by the owner of the machine, and no workflow or file can change it: API keys and the hosts
that may receive them, the number of threads. A review of what the package reads from the environment needs
only this file.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

INHERITED = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "LANG")
"""Variables that a program of others gets in `restricted`."""
SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)S?$", re.IGNORECASE)


def variable(name: str) -> str:
    """Return the value of an environment variable without surrounding blanks, or "" if it is not set."""
    return os.environ.get(name, "").strip()


def for_a_child(leave_out: str, **more: str) -> dict[str, str]:
    """Return the environment for a child process.

    Variables that look like secrets by name are removed.

    Args:
        leave_out: Prefix of further variables to remove.
        **more: Variables to add.
    """
    own = {
        name: value
        for name, value in os.environ.items()
        if not SECRET.search(name) and not name.startswith(leave_out)
    }
    return {**own, **more}


def restricted(home: Path, **more: str) -> dict[str, str]:
    """Return the environment for a program of others: no key, no proxy, an empty home and no model hub.

    Args:
        home: Folder for its home and its temporary files. It is created.
        **more: Variables to add.
    """
    with suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    fixed = {
        "HOME": str(home),
        "TMPDIR": str(home),
        "HF_HOME": str(home / "hf"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "*",
        "PYTHONBREAKPOINT": "0",
        "PYTHONIOENCODING": "utf-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return {**inherited, **fixed, **more}
