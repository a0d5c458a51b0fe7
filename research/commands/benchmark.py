"""`benchmark`: runs known benchmarks, collects submissions and computes scores."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel, Field

from ...backend.core.errors import SettingsError
from ...backend.core.machine.registry import BENCHMARKS, plugin_names
from ...backend.core.remote.addresses import hosted_specs
from ...backend.core.shown_text import shown_text
from ...backend.core.types.values import DIRECT
from ...backend.story.agents.plan_constraints import PlanConstraints
from ...cli.models import CriticOptions, GeneratorOptions, LocalOptions, PlannerOptions
from ...cli.settings import with_settings
from ...cli.shared_options import Parallel
from ..data.trajectories import PartOptions, TrajectoryOptions
from ..evaluation.benchmark_run import BenchmarkOptions
from .teacher_options import TeacherOptions

KINDS = {
    "tinyworld": "Run 400 built-in stories of the tiny world, scored exactly; needs no data.",
    "wise": "Run WISE (Verified): one image per prompt that needs world knowledge.",
    "ueval": "Run UEval: answers of texts and images.",
    "rise": "Run RISEBench: edits that need reasoning.",
    "specv": "Run SpecV, interleaved track: stories of texts and images.",
    "comm": "Run CoMM, tasks 3 and 4: illustrated manuals.",
}
PLUGINS = {
    name: "Run a benchmark of an installed plug-in." for name in plugin_names(BENCHMARKS) if name not in KINDS
}
MODEL_OPTIONS = {"dtype", "quantization", "engine", "constrained_decoding"}
"""Options of all models that change their results."""
Folder = Annotated[
    Path, typer.Argument(help="The --out folder of a benchmark.", exists=True, file_okay=False)
]
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Run a benchmark, collect its submission, score it and compare results.",
)


class JudgeOptions(BaseModel):
    """Options of the judge that the official evaluator asks."""

    judge: str | None = Field(
        default=None, description="Judge, such as openai:MODEL@URL.", json_schema_extra=DIRECT
    )
    answers: str | None = Field(
        default=None,
        description="Cache file of the judge's answers, so that no question is sent twice. "
        "Default: OUT/answers.sqlite.",
    )
    judge_deadline: float = Field(
        default=180.0,
        gt=0,
        le=86400,
        description="Timeout of a judge's answer in seconds; one retry follows.",
    )
    judge_parallel: int = Field(
        default=16, ge=1, le=256, description="Questions sent to the judge at the same time."
    )


@with_settings
def run(
    context: typer.Context,
    *,
    out: Annotated[Path, typer.Option(help="Output folder. Use an existing one to resume.")],
    data: Annotated[
        Path | None, typer.Option(help="Your copy of the benchmark's data, a file or folder.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Second folder in which to look for the images of the data.")
    ] = None,
    parallel: Parallel = 1,
    yes: Annotated[bool, typer.Option("--yes", help="Start even if a hosted model may cost money.")] = False,
    part: PartOptions,
    settings: BenchmarkOptions,
    planning: PlannerOptions,
    judging: CriticOptions,
    drawing: GeneratorOptions,
    local: LocalOptions,
) -> None:
    """Carry out the items of the benchmark that the command is named after."""
    from ... import __version__
    from ..benchmarks import open_benchmark
    from ..evaluation.benchmark_run import (
        BenchmarkRun,
        BenchmarkSettings,
        commit,
        digest_of,
        take_folder,
    )

    name = context.info_name or ""
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
        version=__version__,
        commit=commit(),
    )
    items = benchmark.items(setting.where())
    chosen = items[: setting.limit]
    constraints = PlanConstraints(step_count=1) if settings.one_image else PlanConstraints()
    named = TeacherOptions(planning, constraints, judging, (drawing,), local)
    attempts = setting.settings.max_attempts
    names = [planning.planner, judging.critic, drawing.generator]
    _confirm(names, f"{len(chosen)} items with up to {attempts} attempts a step", yes)
    take_folder(out, setting.model_copy(update={"data_digest": digest_of(items)}))
    limits = part.model_dump(include=part.model_fields_set)
    made = BenchmarkRun(
        out,
        named,
        setting.settings,
        TrajectoryOptions(go_on=True, **limits),
        parallel,
        _say,
    ).carry_out(chosen, settings.published_input)
    if made.stopped == "interrupted":
        raise typer.Exit(130)
    if made.totals.to_do or made.totals.failed:
        raise typer.Exit(3)
    typer.echo(f"\nAll items of this part are done. Next: interleave-thinker benchmark collect {out}")


for _name, _help in (KINDS | PLUGINS).items():
    app.command(_name, help=f"{_help} Use the same --out to resume.")(run)


def _models(
    planning: PlannerOptions, judging: CriticOptions, drawing: GeneratorOptions, local: LocalOptions
) -> dict[str, Any]:
    """Return the model options that change results."""
    found = drawing.model_dump(exclude_none=True)
    for role, options in (("planner", planning), ("critic", judging)):
        for name, value in options.model_dump(exclude_none=True).items():
            found[name if role in name else f"{role}_{name}"] = value
    return found | local.model_dump(include=local.model_fields_set & MODEL_OPTIONS, exclude_none=True)


def _confirm(models: list[str], what: str, yes: bool) -> None:
    """End the command if a hosted model is used without --yes."""
    hosted = hosted_specs(models)
    if hosted and not yes:
        _say(f"{what} go to {', '.join(hosted)}, which is hosted and may cost money. Add --yes to start.")
        raise typer.Exit(3)


def _say(line: str) -> None:
    typer.echo(shown_text(line))


@app.command()
def collect(
    out: Folder,
    with_gaps: Annotated[
        bool, typer.Option("--with-gaps", help="Include items without an answer; they score zero.")
    ] = False,
    relative_to: Annotated[
        Path | None,
        typer.Option(help="UEval: write image paths relative to this folder. Default: absolute paths."),
    ] = None,
) -> None:
    """Write OUT/submission in the format of the official evaluator, and check it by reading it back."""
    from ..evaluation import submission

    submission.collect(out, with_gaps, relative_to, _say)


@app.command()
@with_settings
def score(
    *,
    out: Folder,
    results: Annotated[
        Path | None, typer.Option(help="Results of the official evaluator. Not needed for tinyworld.")
    ] = None,
    official: Annotated[
        Path | None,
        typer.Option(help="Checkout of the official evaluator, which is run unchanged with --judge."),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(help="Python with the requirements of the official evaluator. Default: this one."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Start even if a hosted judge may cost money.")] = False,
    judge: JudgeOptions,
) -> None:
    """Compute scores with confidence intervals: OUT/scores.json, and OUT/scores.md, which is also printed.

    --official runs the official evaluator with --judge, --results reads the results of your own run of it.
    """
    from ..evaluation.scores import as_lines
    from ..evaluation.scores import score as scored

    if (official is None) != (judge.judge is None) or (official is not None and results is not None):
        raise SettingsError(
            "--official CHECKOUT and --judge MODEL belong together, and exclude --results.",
            "Give both, or only --results.",
        )
    if official is None:
        found = scored(out, results)
    else:
        from ..evaluation.judge_bridge import open_judge
        from ..evaluation.official_scoring import ANSWERS, OfficialScoring, score_officially

        spec = judge.judge or ""
        _confirm([spec], "The questions of the official evaluator", yes)
        answers = Path(judge.answers).expanduser() if judge.answers else out / ANSWERS
        how = OfficialScoring(official, python or sys.executable, judge.judge_parallel)
        found = score_officially(out, how, lambda: open_judge(spec, answers, judge.judge_deadline), _say)
    for line in as_lines(found):
        _say(line)


@app.command()
def compare(
    first: Folder,
    second: Annotated[
        Path, typer.Argument(help="Folder of another run on the same data.", exists=True, file_okay=False)
    ],
) -> None:
    """Compare two scored runs item by item."""
    from ..evaluation import scores

    for line in scores.comparison_lines(scores.compare(first, second)):
        _say(line)


@app.command()
def table(
    folders: Annotated[
        list[Path], typer.Argument(help="Scored folders of the same benchmark and judge.", exists=True)
    ],
) -> None:
    """Print scored runs in one table: scores, images and seconds per item, steps that were not accepted."""
    from ..evaluation import scores

    for line in scores.table(folders):
        _say(line)
