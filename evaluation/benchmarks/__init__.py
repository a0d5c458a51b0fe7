"""Benchmarks by name, a folder for each: items, submission, official and own judging."""

from __future__ import annotations

from importlib import import_module

from ...backend.errors import SettingsError
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
BY_RESULTS = ("vistory",)
"""Judged by detectors and encoders that whoever has their weights runs; no judge is asked for them."""


def open_benchmark(name: str) -> Benchmark:
    """The benchmark of this name; raises SettingsError."""
    if name not in REGISTRY:
        raise SettingsError(f"There is no benchmark {name!r}.", f"Known: {', '.join(REGISTRY)}.")
    return import_module(REGISTRY[name], __package__).BENCHMARK
