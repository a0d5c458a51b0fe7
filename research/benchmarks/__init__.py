"""Registry of benchmarks, one file for each."""

from __future__ import annotations

from ...backend.core.machine import registry
from ...backend.core.machine.registry import Registry
from .benchmark import Benchmark

REGISTRY = {
    "tinyworld": "..tinyworld.benchmark",
    "wise": ".wise",
    "ueval": ".ueval",
    "rise": ".rise",
    "specv": ".specv",
    "comm": ".comm",
}
BENCHMARKS = Registry("benchmark", REGISTRY, __name__, registry.BENCHMARKS, "BENCHMARK")


def open_benchmark(name: str) -> Benchmark:
    """Open the benchmark with this name.

    Raises:
        SettingsError: If no benchmark has this name.
    """
    return BENCHMARKS.load(name)
