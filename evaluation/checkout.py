"""Finds the commit of this package, which is stored with every figure that should be reproducible.

Only a checkout of the package itself counts. When installed inside another repository (ComfyUI, a site), git
would otherwise report that repository's commit.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEADLINE = 10.0
"""Timeout of git, in seconds."""
UNKNOWN = "unknown"


def commit(root: Path = ROOT) -> str:
    """Return the commit of the checkout at `root`, or "unknown" if it is not a checkout or git fails."""
    if not (root / ".git").exists():
        return UNKNOWN
    try:
        found = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=DEADLINE
        )
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    # In a repository without commits git prints its argument, and fails.
    return UNKNOWN if found.returncode else found.stdout.strip()
