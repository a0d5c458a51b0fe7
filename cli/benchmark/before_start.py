"""Shows the estimate of a benchmark run before its first image, and decides whether the run may start.

A local run always starts. With a hosted model, the user sees the estimated cost first.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from ...backend.shown_text import shown_text
from ..open_models import prompts_in, reply_settings
from ..options.model_options import NONE, CriticOptions
from ..options.teachers import TeacherOptions

if TYPE_CHECKING:
    from ...evaluation.benchmarks.base.benchmark import Benchmark, BenchmarkItem
    from ...evaluation.runs.running import BenchmarkRun
    from ...training.data.trajectories.unit import OpenTeachers, Teachers
    from ...training.data.trajectories.usage import Role


class OpenedOnce:
    """Opens models at the first call and returns the same ones afterwards."""

    def __init__(self, opens: OpenTeachers) -> None:
        self._opens = opens
        self._opened: Teachers | None = None
        self._lock = threading.Lock()

    def __call__(self) -> Teachers:
        """Return the models.

        Raises:
            InterleaveError: The models cannot be opened.
        """
        with self._lock:
            if self._opened is None:
                self._opened = self._opens()
            return self._opened


def before_start(
    run: BenchmarkRun,
    named: TeacherOptions,
    benchmark: Benchmark,
    items: Sequence[BenchmarkItem],
    published_input: bool,
    yes: bool,
) -> bool:
    """Plan some items, show the estimate if there is work to do, and return whether the run may start."""
    from ...backend.remote.addresses import hosted_specs
    from ...evaluation.runs.estimate import Estimator, as_lines
    from ...evaluation.runs.running import row_of
    from ...evaluation.runs.settings import ITEMS

    models: dict[Role, str] = {"planner": named.planner.planner, "generator": named.generators[0].generator}
    if named.critic.critic != NONE:
        models["critic"] = named.critic.critic
    estimator = Estimator(run.out / ITEMS, run.settings, models, run.prices, _longest_verdict(named.critic))
    prompts = run.part(items, published_input)
    unplanned = estimator.plan(prompts, run.teachers, run.executor, run.log)
    found = estimator.estimate(prompts, unplanned)
    if not found.to_do:
        return True
    included = {one.row.id for one in prompts}
    calls = sum(benchmark.judge_calls(item) for item in items if row_of(item).id in included)
    for line in (*as_lines(found, calls), ""):
        run.log(line)
    hosted = hosted_specs(models.values())
    if hosted and not run.prices:
        run.log("Add --prices FILE to estimate the cost.")
    if hosted and not yes:
        typer.echo(
            f"{shown_text(', '.join(hosted))} is hosted and may cost money. Nothing was generated. "
            "Add --yes to start.",
            err=True,
        )
    return yes or not hosted


def _longest_verdict(judging: CriticOptions) -> tuple[int, int]:
    """Return the most input and output tokens of a verdict: two full-size images and the longest answer."""
    from ...backend.prompts import default_prompt_set
    from ...training.data.trajectories.usage import CHARACTERS_A_TOKEN, PIXELS_A_TOKEN

    settings = reply_settings("critic", judging)
    prompts = prompts_in(judging.critic_prompts) or default_prompt_set()
    text = len(prompts.critic)
    images = 2 * settings.max_pixels / PIXELS_A_TOKEN
    return round(images + text / CHARACTERS_A_TOKEN), settings.limit
