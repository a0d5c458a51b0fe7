"""`benchmark NAME`: carries out the items of a benchmark in a folder; later calls resume it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ...backend.agents.plan_constraints import PlanConstraints
from ...backend.errors import InterleaveError, SettingsError
from ...backend.shown_text import shown_text
from ...evaluation.runs.settings import BenchmarkOptions
from ...training.data.trajectories.options import TrajectoryOptions
from ..options.model_options import CriticOptions, GeneratorOptions, LocalOptions, PlannerOptions
from ..options.models import with_model_options
from ..options.panels import COST, LIMITS
from ..options.teachers import Parallel, RayAddress, TeacherOptions, Workers, open_executor
from .before_start import OpenedOnce, before_start

MODEL_OPTIONS = ("dtype", "quantization", "engine", "constrained_decoding")
"""Options of all models that change their results."""


@with_model_options
def command(
    called: typer.Context,
    *,
    out: Annotated[Path, typer.Option(help="Output folder. Use an existing one to resume.")],
    data: Annotated[
        Path | None, typer.Option(help="Your copy of the benchmark's data, a file or folder.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Second folder in which to look for the images of the data.")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            help="Only part i of n of the items, as i/n. Default: RANK/WORLD_SIZE if set, otherwise all.",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    stop_after: Annotated[
        str | None, typer.Option(help="Stop after this time, such as 90s, 30m or 4h.", rich_help_panel=LIMITS)
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Retry failed items.", rich_help_panel=LIMITS)
    ] = False,
    parallel: Parallel = 1,
    ray: RayAddress = None,
    workers: Workers = 2,
    estimate: Annotated[
        bool,
        typer.Option(
            "--estimate",
            help="Print the estimate and stop. Plans made for it are reused by the run.",
            rich_help_panel=COST,
        ),
    ] = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Start even if a hosted model may cost money.", rich_help_panel=COST),
    ] = False,
    prices: Annotated[
        Path | None,
        typer.Option(
            help='JSON price list {"MODEL": {"input", "output", "image"}}; tokens per million.',
            rich_help_panel=COST,
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Stop when this amount is spent, by the prices of --prices.", rich_help_panel=COST
        ),
    ] = None,
    settings: BenchmarkOptions,
    planning: PlannerOptions,
    judging: CriticOptions,
    drawing: GeneratorOptions,
    local: LocalOptions,
) -> None:
    """Carry out the items of the benchmark that the command is named after; `app.py` sets the help."""
    from ...evaluation.benchmarks import open_benchmark
    from ...evaluation.checkout import commit
    from ...evaluation.runs.running import BenchmarkRun, ShowingImages
    from ...evaluation.runs.settings import BenchmarkSettings, digest_of, give_folder_back, take_folder
    from ...training.data.trajectories.usage import read_prices

    name = called.info_name or ""
    benchmark = open_benchmark(name)
    setting = BenchmarkSettings(
        benchmark=name,
        data=str(data.resolve()) if data else "",
        images=str(images.resolve()) if images else "",
        data_digest="",
        split=settings.split,
        limit=settings.limit,
        models=_models(planning, judging, drawing, local),
        preset=settings.preset,
        settings=settings.run_settings(),
        published_input=settings.published_input,
        one_image=settings.one_image,
        version=_version(),
        commit=commit(),
    )
    items = benchmark.items(setting.where())
    if settings.one_image and any(item.steps for item in items):
        raise SettingsError(
            f"{benchmark.terms.title} sets the number of steps itself.", "Remove --one-image."
        )
    setting = setting.model_copy(update={"data_digest": digest_of(items)})
    options = TrajectoryOptions(
        shard=shard or _rank(), stop_after=stop_after, budget=budget, retry_failed=retry_failed, go_on=True
    )
    constraints = PlanConstraints(step_count=1) if settings.one_image else PlanConstraints()
    named = TeacherOptions(planning, constraints, judging, (drawing,), local)
    opens = ShowingImages(named) if benchmark.shows_images else named
    # Threads share the models, also with the planning for the estimate; Ray workers open their own.
    teachers = opens if ray else OpenedOnce(opens)
    is_new = take_folder(out, setting)
    if benchmark.shows_images and not ray and is_new:
        try:
            teachers()
        except InterleaveError:
            # Without images in it, the folder can be used with another generator.
            give_folder_back(out)
            raise
    run = BenchmarkRun(
        out,
        teachers,
        setting.settings,
        options,
        open_executor(parallel, ray, workers),
        _say,
        read_prices(prices, named.names) if prices else {},
    )
    chosen = items[: setting.limit]
    begins = before_start(run, named, benchmark, chosen, settings.published_input, yes)
    if estimate or not begins:
        raise typer.Exit(0 if estimate else 3)
    made = run.carry_out(chosen, settings.published_input)
    if made.stopped == "interrupted":
        raise typer.Exit(130)
    if made.totals.to_do or made.totals.failed:
        raise typer.Exit(3)
    typer.echo(f"\nAll items of this part are done. Next: interleave-thinker benchmark collect {out}")


def _say(line: str) -> None:
    typer.echo(shown_text(line))


def _models(*options: Any) -> dict[str, Any]:
    """Return the model options that change results."""
    *models, local = options
    found: dict[str, Any] = {}
    for one in models:
        found |= one.model_dump(exclude_none=True)
    return found | local.model_dump(include=set(MODEL_OPTIONS), exclude_none=True)


def _rank() -> str:
    """Return the part of this process among those that torchrun started, as i/n."""
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return f"{rank}/{size}" if rank.isdecimal() and size.isdecimal() and int(size) > 1 else "0/1"


def _version() -> str:
    from ... import __version__

    return __version__
