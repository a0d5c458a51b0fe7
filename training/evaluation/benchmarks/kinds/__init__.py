"""The benchmarks by name; each in a file of its own, imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

from .....backend.errors import SettingsError
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
BY_RESULTS = ("vistory",)
"""Judged by detectors and encoders that whoever has their weights runs; no judge is asked for them."""


def open_benchmark(name: str) -> Benchmark:
    """The benchmark of this name; raises SettingsError."""
    if name not in REGISTRY:
        raise SettingsError(f"There is no benchmark {name!r}.", f"Known: {', '.join(REGISTRY)}.")
    return import_module(REGISTRY[name], __package__).BENCHMARK
