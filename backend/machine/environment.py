"""What the environment says: the only place that reads it for what runs in ComfyUI.

Decision: a variable is the owner's word about this machine, which no workflow and no file can change: keys
and whom they may be sent to, how many threads. Whoever reviews what the package reads there reads one file.
"""

from __future__ import annotations

import os


def variable(name: str) -> str:
    """The value of an environment variable without blanks around it, "" where it is not set."""
    return os.environ.get(name, "").strip()
