"""Benchmarks by name, a folder for each: items, submission, official and own judging."""

from __future__ import annotations

from ...backend.machine import plugins
from ...backend.registry import Registry
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
BENCHMARKS = Registry("benchmark", REGISTRY, __name__, plugins.BENCHMARKS, "BENCHMARK")
BY_RESULTS = ("vistory",)
"""Judged by detectors and encoders that whoever has their weights runs; no judge is asked for them."""


def open_benchmark(name: str) -> Benchmark:
    """The benchmark of this name; raises SettingsError."""
    return BENCHMARKS.load(name)
