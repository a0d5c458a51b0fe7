"""A benchmark's folder, run with small agents and collected, for tests of scoring."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from support.small_benchmarks import MINIATURES
from support.small_teachers import SmallTeachers

from interleave_thinker.backend.generators.fake import FakeGenerator
from interleave_thinker.evaluation.benchmarks import open_benchmark
from interleave_thinker.evaluation.runs.running import BenchmarkRun
from interleave_thinker.evaluation.runs.settings import (
    BenchmarkOptions,
    BenchmarkSettings,
    digest_of,
    take_folder,
)
from interleave_thinker.evaluation.runs.submission import collect
from interleave_thinker.training.data.executors.threads import ThreadExecutor
from interleave_thinker.training.data.trajectories.options import TrajectoryOptions
from interleave_thinker.training.data.trajectories.unit import Teachers


@dataclass(frozen=True)
class ShownSeveral:
    """Small teachers with a generator that accepts several images."""

    def __call__(self) -> Teachers:
        return replace(SmallTeachers()(), generators=(("fake", FakeGenerator(16)),))


def collected(name: str, folder: Path) -> Path:
    """Return the `--out` folder of a miniature of this benchmark, below `folder`."""
    data = folder / "data"
    data.mkdir(parents=True)
    given, benchmark, options = MINIATURES[name](data), open_benchmark(name), BenchmarkOptions()
    items = benchmark.items(given)
    setting = BenchmarkSettings(
        benchmark=name,
        data=str(given.path or ""),
        data_digest=digest_of(items),
        models={"planner": "small", "critic": "small", "generator": "fake"},
        preset=options.preset,
        settings=options.run_settings(),
        version="1",
        commit="unknown",
    )
    out = folder / "out"
    take_folder(out, setting)
    teachers = ShownSeveral() if benchmark.shows_images else SmallTeachers()
    run = BenchmarkRun(
        out, teachers, setting.settings, TrajectoryOptions(go_on=True), ThreadExecutor(2), lambda line: None
    )
    run.carry_out(items)
    collect(out, log=lambda line: None)
    return out
