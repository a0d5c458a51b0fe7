"""`evaluate`: measures agents on held-out requests and pages, with confidence intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...backend.errors import SettingsError
from ..open_models import Opener
from ..options.model_options import CriticOptions, LocalOptions, PlannerOptions
from ..options.models import with_model_options
from .ablation import command as ablation
from .calibration import command as calibration
from .critic import command as critic
from .scorer import command as scorer

if TYPE_CHECKING:
    from ...tinyworld.lab.evaluation import TinyWorldReport

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Measure a critic's checklist, scorers, and planner, critic and complete stories in the tiny world.",
)


@app.callback()
def measures() -> None:
    """Measure a critic's checklist, scorers, and planner, critic and complete stories in the tiny world."""


app.command("ablation")(ablation)
app.command("critic")(critic)
app.command("calibration")(calibration)
app.command("scorer")(scorer)


@app.command("tinyworld")
@with_model_options
def tinyworld(
    planning: PlannerOptions,
    judging: CriticOptions,
    local: LocalOptions,
    stories: Annotated[int, typer.Option(min=1, help="Number of requests to plan and run.")] = 400,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of requests and pages.")] = 0,
    max_attempts: Annotated[
        str, typer.Option(help="Numbers of attempts to measure, separated by commas.")
    ] = "1,3,5",
    generator: Annotated[str, typer.Option(help="Generator: tinyworld or tinyworld:FOLDER.")] = "tinyworld",
    json_file: Annotated[Path | None, typer.Option("--json", help="JSON file for all results.")] = None,
) -> None:
    """Measure the tiny world: exact plans, correct verdicts, and fully correct stories and steps."""
    from ...backend.files.atomic import write_text
    from ...backend.generators import open_generator
    from ...tinyworld.lab.evaluation import EvaluationSettings, evaluate
    from ...tinyworld.runtime.generator import TinyWorldGenerator

    try:
        attempts = sorted({int(part) for part in max_attempts.split(",")})
    except ValueError:
        attempts = []
    if not attempts or attempts[0] < 1:
        raise SettingsError(
            f"--max-attempts {max_attempts!r} is not a list of positive numbers.", "Use a list such as 1,3,5."
        )
    drawing = open_generator(generator)
    if not isinstance(drawing, TinyWorldGenerator):
        raise SettingsError(f"--generator {generator!r} is not a tiny-world generator.", "Use tinyworld.")
    opener = Opener(local)
    planner, critic = opener.planner(planning), opener.critic(judging)
    opener.finish()
    if critic is None:
        raise SettingsError("`evaluate tinyworld` needs a critic, but --critic is none.", "Name a critic.")
    report = evaluate(planner, critic, drawing, EvaluationSettings(stories, seed, attempts), _log)
    _print(report)
    if json_file is not None:
        write_text(json_file, json.dumps(report.as_json(), indent=2) + "\n", SettingsError, "Report")


def _log(line: str) -> None:
    typer.echo(line, err=True)


def _print(report: TinyWorldReport) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("measure", "rate", "95 % CI", "n")
    rows = {"plans exact": report.planner.exact}
    rows |= {
        f"critic {n.replace('_', ' ')}": getattr(report.critic, n) for n in type(report.critic).model_fields
    }
    for attempts, figure in report.stories.stories.items():
        rows[f"stories correct, {attempts} attempt{'s' if attempts > 1 else ''}"] = figure
    for attempts, figure in report.stories.steps.items():
        rows[f"steps correct, {attempts} attempt{'s' if attempts > 1 else ''}"] = figure
    for name, figure in rows.items():
        table.add_row(name, f"{figure.rate:.3f}", f"{figure.low:.3f} to {figure.high:.3f}", str(figure.n))
    console = Console(width=90)
    console.print(table)
    for attempts, draws in report.stories.draws.items():
        seconds = report.stories.seconds[attempts]
        console.print(f"{attempts} attempts: {draws:.2f} images per step, {seconds:.2f} s per story")
    median, slowest = report.four_steps[len(report.four_steps) // 2], report.four_steps[-1]
    console.print(f"story with 4 steps and 5 attempts: {median:.2f} s (median), {slowest:.2f} s (slowest)")
    console.print(f"measured in {report.seconds:.0f} s")
