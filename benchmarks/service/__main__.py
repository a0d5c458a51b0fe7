"""Runs checks of the service, and prints a table and a JSON line with medians.

python -m benchmarks.service overhead tinyworld balance --repeats 3
python -m benchmarks.service all
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from . import on_ray, throughput

CHECKS: dict[str, Callable[[], dict[str, Any]]] = {
    "overhead": throughput.overhead,
    "tinyworld": throughput.tinyworld,
    "balance": throughput.balance,
    "memory": throughput.memory,
    "ray": on_ray.ray,
    "ray-scaling": on_ray.scaling,
}


def median(values: list[Any]) -> Any:
    """Return the median of numbers; of other values the last."""
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in values)
    return round(statistics.median(values), 3) if numbers else values[-1]


def main() -> None:
    """Run the selected checks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checks", nargs="+", choices=[*CHECKS, "all"])
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args()
    for name in CHECKS if "all" in given.checks else given.checks:
        began = time.monotonic()
        runs = [CHECKS[name]() for _ in range(given.repeats)]
        found = {key: median([one[key] for one in runs]) for key in runs[-1]}
        print(f"{name} ({given.repeats} times, {time.monotonic() - began:.0f} s)")
        for key, value in found.items():
            print(f"  {key:<26}{value}")
        print(json.dumps({"check": name, "repeats": given.repeats} | found), flush=True)


if __name__ == "__main__":
    main()
