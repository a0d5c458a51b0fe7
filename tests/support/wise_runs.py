"""Runs of the WISE benchmark with our own prompts and teachers without a model."""

from __future__ import annotations

import json
from pathlib import Path

from support.small_teachers import SmallTeachers

from interleave_thinker.evaluation.benchmarks import open_benchmark
from interleave_thinker.evaluation.runs.running import BenchmarkRun
from interleave_thinker.evaluation.runs.settings import (
    BenchmarkOptions,
    BenchmarkSettings,
    digest_of,
    items_of,
    take_folder,
)
from interleave_thinker.training.data.executors.threads import ThreadExecutor
from interleave_thinker.training.data.trajectories.options import TrajectoryOptions


def wise_data(folder: Path, count: int) -> Path:
    """Write our own prompts in the format of WISE."""
    path = folder / "merge.json"
    rows = [{"Prompt": f"what {n} is", "Explanation": "it", "prompt_id": n} for n in range(1, count + 1)]
    path.write_text(json.dumps(rows))
    return path


def setting_of(data: Path) -> BenchmarkSettings:
    options = BenchmarkOptions()
    setting = BenchmarkSettings(
        benchmark="wise",
        data=str(data),
        data_digest="",
        models={},
        preset=options.preset,
        settings=options.run_settings(),
        version="1",
        commit="unknown",
    )
    items = open_benchmark("wise").items(setting.where())
    return setting.model_copy(update={"data_digest": digest_of(items)})


def carry_out(out: Path, setting: BenchmarkSettings, teachers: SmallTeachers) -> None:
    take_folder(out, setting)
    options = TrajectoryOptions(go_on=True, retry_failed=True)
    run = BenchmarkRun(out, teachers, setting.settings, options, ThreadExecutor(2), lambda line: None)
    run.carry_out(items_of(open_benchmark("wise"), setting))
