"""Which commit of this package figures were made with: it stands beside every figure that is to be repeated.

Decision: only a checkout of the package itself is asked. Installed inside another repository (a host's, a
site's), it would otherwise name that one's commit.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEADLINE = 10.0
"""Seconds for which git is waited for."""
UNKNOWN = "unknown"


def commit(root: Path = ROOT) -> str:
    """The commit of the checkout at `root`, "unknown" where it is none or git cannot say."""
    if not (root / ".git").exists():
        return UNKNOWN
    try:
        found = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=DEADLINE
        )
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    # Without a commit git prints the name that it was asked for, and fails.
    return UNKNOWN if found.returncode else found.stdout.strip()
