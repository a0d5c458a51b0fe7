"""Registry of benchmarks. Each has a folder with its items, submission format, official and own judging."""

from __future__ import annotations

from ...backend.machine import registry
from ...backend.machine.registry import Registry
from .base.benchmark import Benchmark

REGISTRY = {
    "tinyworld": "...tinyworld.lab.benchmark",
    "wise": ".wise.items",
    "ueval": ".ueval.items",
    "rise": ".rise.items",
    "specv": ".specv.items",
    "comm": ".comm.items",
    "vistory": ".vistory.items",
}
BENCHMARKS = Registry("benchmark", REGISTRY, __name__, registry.BENCHMARKS, "BENCHMARK")
BY_RESULTS = ("vistory",)
"""Benchmarks scored by detectors and encoders that the user runs. They use no judge model."""


def open_benchmark(name: str) -> Benchmark:
    """Open the benchmark with this name.

    Raises:
        SettingsError: If no benchmark has this name.
    """
    return BENCHMARKS.load(name)
