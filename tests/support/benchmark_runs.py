"""Folders of benchmarks, run with small agents and collected, for tests of running and scoring."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.small_benchmarks import MINIATURES
from support.small_teachers import SmallTeachers

from interleave_thinker.research.benchmarks import open_benchmark
from interleave_thinker.research.benchmarks.benchmark import BenchmarkData
from interleave_thinker.research.data.trajectories import Teachers, TrajectoriesReport, TrajectoryOptions
from interleave_thinker.research.evaluation.benchmark_run import (
    BenchmarkOptions,
    BenchmarkRun,
    BenchmarkSettings,
    digest_of,
    items_of,
    take_folder,
)
from interleave_thinker.research.evaluation.submission import collect


def setting_of(name: str, data: Path | None, **options: object) -> BenchmarkSettings:
    """Return the settings of a run on this data."""
    chosen = BenchmarkOptions.model_validate(options)
    return BenchmarkSettings(
        benchmark=name,
        data=str(data or ""),
        data_digest=digest_of(open_benchmark(name).items(BenchmarkData(data))),
        limit=chosen.limit,
        models={"planner": "small", "critic": "small", "generator": "fake"},
        preset=chosen.preset,
        settings=chosen.run_settings(),
        version="1",
        commit="unknown",
    )


def miniature_setting(name: str, folder: Path, **options: object) -> BenchmarkSettings:
    """Return the settings of a run on the miniature of a benchmark, in `folder / "data"`."""
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    return setting_of(name, MINIATURES[name](data).path, **options)


def carry_out(
    out: Path,
    setting: BenchmarkSettings,
    teachers: Callable[[], Teachers] = SmallTeachers(),  # noqa: B008 - frozen
    **options: object,
) -> TrajectoriesReport:
    """Run the items of a folder."""
    take_folder(out, setting)
    chosen = TrajectoryOptions.model_validate({"go_on": True, **options})
    run = BenchmarkRun(out, teachers, setting.settings, chosen, 2, lambda line: None)
    return run.carry_out(items_of(open_benchmark(setting.benchmark), setting))


def collected(name: str, folder: Path) -> Path:
    """Return the collected `--out` folder of a miniature of this benchmark, below `folder`."""
    setting, out = miniature_setting(name, folder), folder / "out"
    carry_out(out, setting, SmallTeachers())
    collect(out, log=lambda line: None)
    return out
