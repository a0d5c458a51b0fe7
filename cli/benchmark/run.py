"""`benchmark NAME`: a benchmark's items carried out in a folder, which every later call continues."""

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
from ..open_models import CriticOptions, GeneratorOptions, LocalOptions, PlannerOptions
from ..options.models import with_model_options
from ..options.teachers import Parallel, RayAddress, TeacherOptions, Workers, open_executor
from .before_start import OpenedOnce, before_start

MODEL_OPTIONS = ("dtype", "quantization", "engine", "constrained_decoding")
"""Options of all models that change what they answer."""


@with_model_options
def command(
    called: typer.Context,
    *,
    out: Annotated[Path, typer.Option(help="Folder of the benchmark; the same command goes on in it.")],
    data: Annotated[
        Path | None, typer.Option(help="The benchmark's data: your copy, a file or folder.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Where the data's images are looked for besides its own folder.")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(help="Only part i of n of the items, as i/n; by default RANK of WORLD_SIZE, or all."),
    ] = None,
    stop_after: Annotated[str | None, typer.Option(help="Stop after this time (90s, 30m, 4h).")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed items again.")] = False,
    parallel: Parallel = 1,
    ray: RayAddress = None,
    workers: Workers = 2,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only say what is to come; plans made for it are used later.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Begin although a hosted model is named, which may cost money.")
    ] = False,
    prices: Annotated[
        Path | None, typer.Option(help='Price list {"MODEL": {"input", "output" a million, "image"}}.')
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0.0, help="Stop once this much is spent, by the prices of --prices.")
    ] = None,
    settings: BenchmarkOptions,
    planning: PlannerOptions,
    judging: CriticOptions,
    drawing: GeneratorOptions,
    local: LocalOptions,
) -> None:
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
        settings=settings.run_settings(benchmark.shows_images),
        published_input=settings.published_input,
        one_image=settings.one_image,
        version=_version(),
        commit=commit(),
    )
    items = benchmark.items(setting.where())
    if settings.one_image and any(item.steps for item in items):
        raise SettingsError(
            f"{benchmark.terms.title} says how many steps there are.", "Leave out --one-image."
        )
    setting = setting.model_copy(update={"data_digest": digest_of(items)})
    options = TrajectoryOptions(
        shard=shard or _rank(), stop_after=stop_after, budget=budget, retry_failed=retry_failed, go_on=True
    )
    constraints = PlanConstraints(step_count=1) if settings.one_image else PlanConstraints()
    named = TeacherOptions(planning, constraints, judging, (drawing,), local)
    opens = ShowingImages(named) if benchmark.shows_images else named
    # Threads share the models, also with the planning before the run; Ray's workers open their own.
    teachers = opens if ray else OpenedOnce(opens)
    is_new = take_folder(out, setting)
    if benchmark.shows_images and not ray and is_new:
        try:
            teachers()
        except InterleaveError:
            # A folder that no image was drawn in is free for another generator.
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
    wanted = items[: setting.limit]
    begins = before_start(run, named, benchmark, wanted, settings.published_input, yes)
    if estimate or not begins:
        raise typer.Exit(0 if estimate else 3)
    made = run.carry_out(wanted, settings.published_input)
    if made.stopped == "interrupted":
        raise typer.Exit(130)
    if made.totals.to_do or made.totals.failed:
        raise typer.Exit(3)
    typer.echo(f"\nAll items of this part are done. Then: interleave-thinker benchmark collect {out}")


def _say(line: str) -> None:
    typer.echo(shown_text(line))


def _models(*options: Any) -> dict[str, Any]:
    """What was typed of the models, as far as it changes what they do."""
    *models, local = options
    found: dict[str, Any] = {}
    for one in models:
        found |= one.model_dump(exclude_none=True)
    return found | local.model_dump(include=set(MODEL_OPTIONS), exclude_none=True)


def _rank() -> str:
    """The part of this process among those that torchrun started."""
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return f"{rank}/{size}" if rank.isdecimal() and size.isdecimal() and int(size) > 1 else "0/1"


def _version() -> str:
    from ... import __version__

    return __version__
