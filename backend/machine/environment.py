"""Environment variables: the only module that reads them for code that runs in ComfyUI.

A variable is set by the owner of the machine, and no workflow or file can change it: API keys and the hosts
that may receive them, the number of threads. A review of what the package reads from the environment needs
only this file.
"""

from __future__ import annotations

import os
import re

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
