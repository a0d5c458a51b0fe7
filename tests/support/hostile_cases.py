"""What the benchmarks of spoiled files look at after every case, and what they say in the end."""

from __future__ import annotations

import json
import resource
from collections import Counter
from pathlib import Path
from typing import NoReturn


def names_below(folder: Path) -> set[str]:
    """Names of all that lies in a folder."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def conclude(ends: Counter[str], faults: Counter[str], slowest: float, **counts: int) -> NoReturn:
    """Print the figures as a line of JSON, and end with 1 if there was a fault."""
    figures = {
        **counts,
        "ends": dict(ends),
        "faults": dict(faults),
        "slowest_seconds": round(slowest, 2),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(figures))
    raise SystemExit(bool(faults))
