"""What the environment says: the only place that reads it for what runs in ComfyUI.

Decision: a variable is the owner's word about this machine, which no workflow and no file can change: keys
and whom they may be sent to, how many threads. Whoever reviews what the package reads there reads one file.
"""

from __future__ import annotations

import os
import re

SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)S?$", re.IGNORECASE)


def variable(name: str) -> str:
    """The value of an environment variable without blanks around it, "" where it is not set."""
    return os.environ.get(name, "").strip()


def for_a_child(leave_out: str, **more: str) -> dict[str, str]:
    """The environment that a program of ours is started with: without what looks like a secret by its name,
    and without the variables that begin with `leave_out`; `more` is added."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not SECRET.search(name) and not name.startswith(leave_out)
    }
    return {**own, **more}
