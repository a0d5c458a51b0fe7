"""The benchmarks by name; each in a file of its own, imported when it is asked for."""

from __future__ import annotations

from .....backend.machine import plugins
from .....backend.registry import Registry
from .benchmark import Benchmark

REGISTRY = {
    "tinyworld": ".tinyworld",
    "wise": ".wise",
    "ueval": ".ueval",
    "rise": ".rise",
    "specv": ".specv",
    "comm": ".comm",
    "vistory": ".vistory",
}
BENCHMARKS = Registry("benchmark", REGISTRY, __name__, plugins.BENCHMARKS, "BENCHMARK")
BY_RESULTS = ("vistory",)
"""Judged by detectors and encoders that whoever has their weights runs; no judge is asked for them."""


def open_benchmark(name: str) -> Benchmark:
    """The benchmark of this name; raises SettingsError."""
    return BENCHMARKS.load(name)
